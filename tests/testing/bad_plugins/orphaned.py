"""Its distribution claims a model for a module that is no plugin."""

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="orphaned", summary="a tone for each word")
claim_model = claim_of("orphaned")
