"""Deployments of toy stages, made by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omni_host import graph_checks
from omni_host.deployment import Deployment, EdgePlan, ProcessPlan, Sourced, StagePlan
from omni_host.graph import Edge, StageGraph, StageSpec, Task
from omni_host.offers import LauncherSpec, ModelRef, PlatformProbe, TransportSpec
from omni_host.plugins import Lock, Plugins, discover

TOYS = Path(__file__).parent
LAUNCHER = LauncherSpec(name="local", target="omni_host.runtime.launcher:LocalLauncher")
TRANSPORTS = (
    TransportSpec(name="inline", target="omni_host.transports.inline:InlineTransport"),
    TransportSpec(name="shm", target="omni_host.transports.shm:ShmTransport"),
)


def plugins() -> Plugins:
    return Plugins.load(discover(), allow=("builtin",))


def stage(name: str, toy: str, **fields: Any) -> StageSpec:
    return StageSpec(name=name, target=f"toy_stages:{toy}", **fields)


def deploy(
    stages: tuple[StageSpec, ...],
    edges: tuple[Edge, ...],
    tasks: tuple[Task, ...],
    *,
    fused: bool = False,
    env: Mapping[str, str] | None = None,
    lock: Lock | None = None,
) -> Deployment:
    """In one process, or each stage in one of its own."""
    graph = StageGraph(stages=stages, edges=edges, tasks=tasks)
    graph_checks.validate(graph, [transport.name for transport in TRANSPORTS])
    place = {spec.name: "all" if fused else spec.process or spec.name for spec in stages}
    processes = dict.fromkeys(place.values())
    return Deployment(
        model=ModelRef(reference="toy"),
        name="toy",
        owner="builtin",
        graph=graph,
        platform=PlatformProbe(name="cpu", devices=("cpu",), priority=0),
        stages=tuple(
            StagePlan(
                spec=spec,
                process=place[spec.name],
                device="cpu",
                engine=None,
                server_args={
                    key: Sourced(value=value, source="test")
                    for key, value in spec.server_args.items()
                },
            )
            for spec in stages
        ),
        edges=tuple(
            EdgePlan(
                edge=edge,
                transport="inline" if place[edge.source] == place[edge.target] else "shm",
            )
            for edge in edges
        ),
        processes=tuple(
            ProcessPlan(
                name=name,
                stages=tuple(spec.name for spec in stages if place[spec.name] == name),
                python=sys.executable,
                env={"PYTHONPATH": str(TOYS), **(env or {})},
            )
            for name in processes
        ),
        transports=TRANSPORTS,
        launcher=LAUNCHER,
        lock=lock or plugins().lock(),
    )
