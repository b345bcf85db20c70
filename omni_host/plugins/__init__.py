"""The plugin layer: discovery, loading, resolution, the lock and the report.

Names are imported when they are first used: `omni list-plugins --no-load` needs
discovery alone, and pluggy would cost it 20 ms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_host.plugins.discovery import Discovery, discover
    from omni_host.plugins.facade import Plugins
    from omni_host.plugins.faults import Fault
    from omni_host.plugins.lock import Lock, LockedPlugin
    from omni_host.plugins.report import PluginReport, Report
    from omni_host.plugins.resolution import ResolvedModel

__all__ = [
    "Discovery",
    "Fault",
    "Lock",
    "LockedPlugin",
    "PluginReport",
    "Plugins",
    "Report",
    "ResolvedModel",
    "discover",
]

_HOMES = {
    "Discovery": "discovery",
    "Fault": "faults",
    "Lock": "lock",
    "LockedPlugin": "lock",
    "PluginReport": "report",
    "Plugins": "facade",
    "Report": "report",
    "ResolvedModel": "resolution",
    "discover": "discovery",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
