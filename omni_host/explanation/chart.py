"""The explanation as a Mermaid flow chart: processes as boxes, streams as thick arrows."""

from __future__ import annotations

from collections.abc import Iterator

from omni_host.deployment import Deployment, EdgePlan

__all__ = ["as_chart"]


def as_chart(deployment: Deployment) -> str:
    """A chart that Mermaid draws from left to right, from the request to the client."""
    identity = {stage.spec.name: f"s{i}" for i, stage in enumerate(deployment.stages)}
    lines = [
        "flowchart LR",
        "  request([request])",
        *_processes(deployment, identity),
        "  client([client])",
        *_entries(deployment, identity),
        *(_edge(edge, identity) for edge in deployment.edges),
        *_outputs(deployment, identity),
    ]
    return "\n".join(lines)


def _processes(deployment: Deployment, identity: dict[str, str]) -> Iterator[str]:
    stages = {stage.spec.name: stage for stage in deployment.stages}
    for index, process in enumerate(deployment.processes):
        yield f'  subgraph p{index}["process {process.name}"]'
        for name in process.stages:
            stage = stages[name]
            where = f"{stage.engine.name} on {stage.device}" if stage.engine else stage.device
            yield f'    {identity[name]}["{name}<br/>{where}"]'
        yield "  end"


def _entries(deployment: Deployment, identity: dict[str, str]) -> Iterator[str]:
    for task in deployment.graph.tasks:
        for name in task.entry:
            yield f'  request -- "{task.name}" --> {identity[name]}'


def _edge(plan: EdgePlan, identity: dict[str, str]) -> str:
    edge = plan.edge
    label = ", ".join([f"{edge.kind} over {plan.transport}", *sorted(edge.when)])
    line, arrow = ("==", "==>") if edge.kind == "stream" else ("--", "-->")
    return f'  {identity[edge.source]} {line} "{label}" {arrow} {identity[edge.target]}'


def _outputs(deployment: Deployment, identity: dict[str, str]) -> Iterator[str]:
    for task in deployment.graph.tasks:
        for output in task.outputs:
            rate = f" {output.sample_rate} Hz" if output.sample_rate else ""
            yield f'  {identity[output.stage]} -- "{output.modality}{rate}" --> client'
