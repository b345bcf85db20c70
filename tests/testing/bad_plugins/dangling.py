"""Its graph has an edge to a stage that is not there."""

from dataclasses import replace

from toy_voice import claim_of, graph_of

from omni_host.api import Edge, PluginInfo, hookimpl

PLUGIN = PluginInfo(name="dangling", summary="a tone for each word")
claim_model = claim_of("dangling")


@hookimpl
def build_stages(model, options, platform):
    graph = graph_of(options)
    return replace(graph, edges=(*graph.edges, Edge(source="tones", target="codec")))
