"""Computes in a hook."""

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="heavy_hook", summary="imports numpy to build its graph")
claim_model = claim_of("heavy_hook")


@hookimpl
def build_stages(model, options, platform):
    import numpy as np

    return graph_of(options, width=int(np.prod([2, 3])))
