"""Builds another graph each time."""

import itertools

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="moody", summary="a tone for each word")
claim_model = claim_of("moody")
numbers = itertools.count()


@hookimpl
def build_stages(model, options, platform):
    return graph_of(options, build=next(numbers))
