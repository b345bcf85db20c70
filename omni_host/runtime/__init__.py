"""The stage runtime: processes, requests, and what flows between them.

Names are imported when they are first used: a worker needs none of them, and it is
started again when it has died.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_host.runtime.admission import Limits
    from omni_host.runtime.generation import Generation, OutputChunk, Request
    from omni_host.runtime.pipeline import Pipeline
    from omni_host.runtime.reports import (
        RequestReport,
        RuntimeObserver,
        Snapshot,
        StageProgress,
        StageReport,
        StageSnapshot,
    )
    from omni_host.runtime.supervised import Health

__all__ = [
    "Generation",
    "Health",
    "Limits",
    "OutputChunk",
    "Pipeline",
    "Request",
    "RequestReport",
    "RuntimeObserver",
    "Snapshot",
    "StageProgress",
    "StageReport",
    "StageSnapshot",
]

_HOMES = {
    "Generation": "generation",
    "Health": "supervised",
    "Limits": "admission",
    "OutputChunk": "generation",
    "Pipeline": "pipeline",
    "Request": "generation",
    "RequestReport": "reports",
    "RuntimeObserver": "reports",
    "Snapshot": "reports",
    "StageProgress": "reports",
    "StageReport": "reports",
    "StageSnapshot": "reports",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
