"""Builds another graph in each process."""

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="unordered", summary="a tone for each word")
claim_model = claim_of("unordered")


@hookimpl
def build_stages(model, options, platform):
    return graph_of(options, moods=list({f"mood {number}" for number in range(50)}))
