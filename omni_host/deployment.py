"""A model made ready to run: which stage goes where, over what, with which arguments.

`omni explain` shows a `Deployment`; the runtime starts one. It is plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_host.graph import Edge, StageGraph, StageSpec
from omni_host.offers import (
    EngineSpec,
    LauncherSpec,
    ModelRef,
    PlatformProbe,
    Sourced,
    TransportSpec,
)
from omni_host.plugins.lock import Lock

__all__ = ["Deployment", "EdgePlan", "ProcessPlan", "Sourced", "StagePlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """A stage with everything decided: `spec` holds the final process, device and arguments."""

    spec: StageSpec
    process: str
    device: str
    engine: EngineSpec | None
    server_args: Mapping[str, Sourced]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePlan:
    """An edge with its transport: `inline` where both stages share a process."""

    edge: Edge
    transport: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A process to start. `python` is its interpreter, `env` what is set before it starts."""

    name: str
    stages: tuple[str, ...]
    python: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All that is needed to start a model and to explain it.

    Clients call the model by its `name`, or by one of its `aliases`. `transport_settings`
    are by the transport's name.
    """

    model: ModelRef
    name: str
    owner: str
    graph: StageGraph
    platform: PlatformProbe
    stages: tuple[StagePlan, ...]
    edges: tuple[EdgePlan, ...]
    processes: tuple[ProcessPlan, ...]
    transports: tuple[TransportSpec, ...]
    launcher: LauncherSpec
    lock: Lock
    aliases: tuple[str, ...] = ()
    transport_settings: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]]
    )
