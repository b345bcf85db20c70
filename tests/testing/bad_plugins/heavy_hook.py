"""Loads in a hook what belongs into stages."""

from toy_voice import claim_of, graph_of

from omni_host.api import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="heavy_hook", summary="imports vllm to build its graph")
claim_model = claim_of("heavy_hook")


@hookimpl
def build_stages(model, options, platform):
    import vllm

    return graph_of(options, engine=vllm.__name__)
