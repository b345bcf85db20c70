"""Imports in the host what belongs into stages."""

import numpy  # noqa: F401
from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="heavy_import", summary="imports numpy")
claim_model = claim_of("heavy_import")
