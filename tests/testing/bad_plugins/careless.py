"""Answers a hook with something else than it should."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="careless", summary="a tone for each word")
claim_model = claim_of("careless")


@hookimpl
def readiness_checks():
    return ["all is well"]
