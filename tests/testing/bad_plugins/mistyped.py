"""A field of its graph is of another type than declared."""

from dataclasses import replace

from toy_voice import claim_of, graph_of, task_of

from omni_host.api import PluginInfo, RequestField, hookimpl

PLUGIN = PluginInfo(name="mistyped", summary="a tone for each word")
claim_model = claim_of("mistyped")


@hookimpl
def build_stages(model, options, platform):
    field = RequestField(name="echo", type="string", description=5, default="")
    return replace(graph_of(options), tasks=(task_of(field),))
