"""Gives a field of the API a meaning of its own."""

from dataclasses import replace

from toy_voice import claim_of, graph_of, task_of

from omni_host.api import PluginInfo, RequestField, hookimpl

PLUGIN = PluginInfo(name="redefining", summary="a tone for each word")
claim_model = claim_of("redefining")


@hookimpl
def build_stages(model, options, platform):
    field = RequestField(name="speed", type="string", description="slow or fast")
    return replace(graph_of(options), tasks=(task_of(field),))
