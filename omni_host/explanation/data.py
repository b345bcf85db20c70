"""The explanation as plain data, for JSON. Keys are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from omni_host.config.reference import description_of
from omni_host.config.settings import Settings
from omni_host.deployment import Deployment, EdgePlan, StagePlan
from omni_host.explanation.engines import unchecked
from omni_host.graph import Task

__all__ = ["as_data"]


def as_data(deployment: Deployment, settings: Settings) -> dict[str, Any]:
    """Everything that was decided; every setting has its value, source and meaning."""
    return {
        "model": {
            "name": deployment.name,
            "reference": deployment.model.reference,
            "path": str(deployment.model.path) if deployment.model.path else None,
            "revision": deployment.model.revision,
            "owner": deployment.owner,
        },
        "platform": asdict(deployment.platform),
        "launcher": deployment.launcher.name,
        "processes": [asdict(process) for process in deployment.processes],
        "stages": [_stage(stage, deployment) for stage in deployment.stages],
        "edges": [_edge(edge) for edge in deployment.edges],
        "tasks": [_task(task) for task in deployment.graph.tasks],
        "settings": {
            name: {**asdict(given), "description": description_of(name)}
            for name, given in settings.everything().items()
        },
        "plugins": [asdict(plugin) for plugin in deployment.lock.plugins],
    }


def _stage(stage: StagePlan, deployment: Deployment) -> dict[str, Any]:
    return {
        "name": stage.spec.name,
        "target": stage.spec.target,
        "process": stage.process,
        "device": stage.device,
        "engine": stage.engine.name if stage.engine else None,
        "unchecked": unchecked(stage, deployment),
        "batching": asdict(stage.spec.batching),
        "max_concurrent": stage.spec.max_concurrent,
        "server_args": _arguments(stage),
    }


def _arguments(stage: StagePlan) -> Mapping[str, Any]:
    return {name: asdict(given) for name, given in sorted(stage.server_args.items())}


def _edge(plan: EdgePlan) -> dict[str, Any]:
    edge = plan.edge
    return {
        "source": edge.source,
        "target": edge.target,
        "kind": edge.kind,
        "transport": plan.transport,
        "when": sorted(edge.when),
        "credits": edge.credits if edge.kind == "stream" else None,
    }


def _task(task: Task) -> dict[str, Any]:
    return {**asdict(task), "honours": sorted(task.honours)}
