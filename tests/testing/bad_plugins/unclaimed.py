"""Claims its alias, but not what the model's `config.json` says."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="unclaimed", summary="a tone for each word")


claim_model = claim_of("unclaimed")
