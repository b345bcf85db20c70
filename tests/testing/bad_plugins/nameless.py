"""Does not say what it is."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="nameless", summary=" ")
claim_model = claim_of("nameless")
