"""A field of its graph is of another type than declared."""

from dataclasses import replace

from toy_voice import claim_of, graph_of, task_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="mistyped", summary="a tone for each word")
claim_model = claim_of("mistyped")


@hookimpl
def build_stages(model, options, platform):
    task = task_of()
    first, *others = task.fields
    fields = (replace(first, description=5), *others)
    return replace(graph_of(options), tasks=(replace(task, fields=fields),))
