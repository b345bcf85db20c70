"""Says what it is in two lines."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="talkative", summary="a tone for each word\nand more")
claim_model = claim_of("talkative")
