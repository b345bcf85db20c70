"""Its graph does not come back as it was sent."""

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="unplain", summary="a tone for each word")
claim_model = claim_of("unplain")


@hookimpl
def build_stages(model, options, platform):
    return graph_of(options, sizes=(1, 2))
