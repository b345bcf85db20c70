"""Has an alias that leads nowhere."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import Claim, PluginInfo, hookimpl

PLUGIN = PluginInfo(name="astray", summary="a tone for each word")


@hookimpl
def claim_model(model):
    if model.reference == "lost":
        return Claim(path="nowhere")
    return claim_of("astray")(model)
