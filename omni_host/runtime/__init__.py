"""The stage runtime: processes, requests, and what flows between them."""

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
