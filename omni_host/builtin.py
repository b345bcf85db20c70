"""The host's own plugin: the CPU platform, transports, engines and launcher."""

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="builtin", summary="CPU platform, transports, engines and local launcher")
