"""The explanation as text, to be read in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omni_host.config.reference import description_of
from omni_host.config.settings import Settings
from omni_host.deployment import Deployment, EdgePlan, ProcessPlan, StagePlan
from omni_host.explanation.engines import unchecked
from omni_host.graph import Output, RequestField, Task

__all__ = ["as_text"]

Row = Sequence[str]


def as_text(deployment: Deployment, settings: Settings, *, defaults: bool = False) -> str:
    """Sections of model, processes, stages, edges, tasks and settings.

    Settings are those that were given, or with `defaults` all, each with its meaning.
    """
    sections = [
        _model(deployment),
        ["Processes", *_columns(_process(process) for process in deployment.processes)],
        ["Stages", *(line for stage in deployment.stages for line in _stage(stage, deployment))],
        ["Edges", *_columns(_edge(edge) for edge in deployment.edges)],
        ["Tasks", *(line for task in deployment.graph.tasks for line in _task(task))],
        ["Settings", *(_all_settings(settings) if defaults else _given_settings(settings))],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if len(lines) > 1)


def _model(deployment: Deployment) -> list[str]:
    platform = deployment.platform
    owner = next(p for p in deployment.lock.plugins if p.name == deployment.owner)
    return [
        f"Model {deployment.name}",
        *_columns(
            [
                ("plugin", f"{owner.name} ({owner.distribution} {owner.version})"),
                ("folder", str(deployment.model.path or "-")),
                ("platform", f"{platform.name} ({', '.join(platform.devices)})"),
                ("launcher", deployment.launcher.name),
            ]
        ),
    ]


def _process(process: ProcessPlan) -> Row:
    variables = " ".join(f"{name}={value}" for name, value in sorted(process.env.items()))
    python = "" if process.python == sys.executable else process.python
    return (process.name, ", ".join(process.stages), python, variables)


def _stage(stage: StagePlan, deployment: Deployment) -> Iterator[str]:
    spec = stage.spec
    engine = [f"engine {stage.engine.name}"] if stage.engine else []
    batch = f"batches of {spec.batching.max_size}" if spec.batching.max_size > 1 else "no batches"
    limit = f"at most {spec.max_concurrent} requests"
    facts = [f"process {stage.process}", stage.device, *engine, batch, limit]
    yield f"  {spec.name}: {', '.join(facts)}"
    yield f"    {spec.target}"
    problem = unchecked(stage, deployment)
    if problem and stage.server_args:
        yield f"    ({problem})"
    yield from _columns(
        (
            (name, _literal(given.value), given.source)
            for name, given in sorted(stage.server_args.items())
        ),
        indent=4,
    )


def _edge(plan: EdgePlan) -> Row:
    edge = plan.edge
    flow = f"credits {edge.credits}" if edge.kind == "stream" else ""
    when = f"if {' or '.join(sorted(edge.when))}" if edge.when else ""
    return (f"{edge.source} -> {edge.target}", edge.kind, plan.transport, flow, when)


def _task(task: Task) -> Iterator[str]:
    outputs = ", ".join(_output(output) for output in task.outputs)
    yield f"  {task.name}: enters at {', '.join(task.entry)}, gives {outputs}"
    for what, values in (("voices", task.voices), ("honours", sorted(task.honours))):
        if values:
            yield f"    {what}: {', '.join(values)}"
    if task.fields:
        yield "    fields:"
        yield from _columns((_field(field) for field in task.fields), indent=6)


def _output(output: Output) -> str:
    rate = f" at {output.sample_rate} Hz" if output.sample_rate else ""
    return f"{output.modality}{rate} from {output.stage}"


def _field(field: RequestField) -> Row:
    bounds = [
        f"{word} {bound:.15g}"
        for word, bound in (("from", field.minimum), ("to", field.maximum))
        if bound is not None
    ]
    kind = " or ".join(field.choices) or " ".join([field.type, *bounds])
    default = "" if field.default is None else f"default {_literal(field.default)}"
    return (field.name, kind, default, field.description)


def _given_settings(settings: Settings) -> list[str]:
    rows = ((n, _literal(given.value), given.source) for n, given in settings.given().items())
    return [*_columns(rows), "  omni explain -v shows the defaults too"]


def _all_settings(settings: Settings) -> list[str]:
    return _columns(
        (name, _literal(given.value), given.source, description_of(name))
        for name, given in settings.everything().items()
    )


def _literal(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _columns(rows: Iterable[Row], indent: int = 2) -> list[str]:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        for row in listed
    )
    return [" " * indent + line.rstrip() for line in lines]
