"""All that a plugin imports from the host.

The hooks are described in `omni_host.hookspecs`, stages in `omni_host.stage`,
graphs in `omni_host.graph`.
"""

from omni_host import errors
from omni_host.graph import Batching, Edge, Output, RequestField, StageGraph, StageSpec, Task
from omni_host.hookspecs import hookimpl
from omni_host.offers import (
    API_VERSION,
    Claim,
    EngineSpec,
    LauncherSpec,
    ModelRef,
    PlatformProbe,
    PlatformRequest,
    PluginInfo,
    ReadinessCheck,
    RouteContext,
    TransportSpec,
)
from omni_host.stage import BatchStage, Call, FlowStage, Job, RequestInfo, StageContext

__all__ = [
    "API_VERSION",
    "BatchStage",
    "Batching",
    "Call",
    "Claim",
    "Edge",
    "EngineSpec",
    "FlowStage",
    "Job",
    "LauncherSpec",
    "ModelRef",
    "Output",
    "PlatformProbe",
    "PlatformRequest",
    "PluginInfo",
    "ReadinessCheck",
    "RequestField",
    "RequestInfo",
    "RouteContext",
    "StageContext",
    "StageGraph",
    "StageSpec",
    "Task",
    "TransportSpec",
    "errors",
    "hookimpl",
]
