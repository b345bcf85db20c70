"""Refusing graphs that cannot run, by the name of the stage, edge or task at fault."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from omni_host.errors import GraphError
from omni_host.graph import Edge, RequestField, StageGraph, StageSpec, Task
from omni_host.graph_types import check_types

__all__ = ["validate"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_TAG = re.compile(r"(in|out):[a-z0-9_-]+")
_RESERVED = frozenset({"request", "client", "host"})
_HONOURED = ("instructions", "speed")
"""The optional fields of the speech API that a model may leave without effect."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "audio": (),
}
"""What the default of a request field is in Python; audio has none."""


def validate(graph: StageGraph, transports: Collection[str]) -> None:
    """Raise GraphError unless `graph` can run over `transports` (names, without `auto`)."""
    check_types(graph)
    if not graph.stages:
        raise GraphError("The graph has no stages.")
    _check_unique("stage", (stage.name for stage in graph.stages))
    _check_unique("task", (task.name for task in graph.tasks))
    for stage in graph.stages:
        _check_stage(stage)
    names = {stage.name for stage in graph.stages}
    for edge in graph.edges:
        _check_edge(edge, names, transports)
    _check_unique("edge", (_name(edge) for edge in graph.edges))
    _check_acyclic(graph.edges)
    if not graph.tasks:
        raise GraphError("The graph has no task.")
    for task in graph.tasks:
        _check_task(task, names, graph.edges)
    _check_ends(graph)
    _check_reached(graph)


def _name(edge: Edge) -> str:
    return f"{edge.source} -> {edge.target} ({edge.kind})"


def _check_unique(what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(f"There are {count} of {what} {name!r}.", field=name)


def _check_stage(stage: StageSpec) -> None:
    name = stage.name
    for what, text in (("name", name), ("process", stage.process)):
        if text is not None and (not _NAME.fullmatch(text) or text in _RESERVED):
            raise GraphError(
                f"Stage {name!r}: {what} {text!r} must be letters, digits, '_' and '-', "
                f"and none of {', '.join(sorted(_RESERVED))}.",
                field=name,
            )
    if not _TARGET.fullmatch(stage.target):
        raise GraphError(
            f"Stage {name!r}: target {stage.target!r} is not 'package.module:attribute'.",
            field=name,
        )
    if stage.max_concurrent < 1:
        raise GraphError(f"Stage {name!r}: max_concurrent must be at least 1.", field=name)
    if stage.batching.max_size < 1:
        raise GraphError(f"Stage {name!r}: batching.max_size must be at least 1.", field=name)
    if not 0 <= stage.batching.max_wait_s <= 60:
        raise GraphError(f"Stage {name!r}: batching.max_wait_s must be 0 to 60.", field=name)


def _check_edge(edge: Edge, stages: set[str], transports: Collection[str]) -> None:
    name = _name(edge)
    for end in (edge.source, edge.target):
        if end not in stages:
            raise GraphError(f"Edge {name} dangles: there is no stage {end!r}.", field=end)
    if edge.transport != "auto" and edge.transport not in transports:
        raise GraphError(
            f"Edge {name}: there is no transport {edge.transport!r}.",
            hint=f"Known here: auto, {', '.join(sorted(transports))}.",
            field=edge.source,
        )
    for tag in edge.when:
        if not _TAG.fullmatch(tag):
            raise GraphError(
                f"Edge {name}: {tag!r} is not a tag; tags are 'in:<modality>' and "
                "'out:<modality>'.",
                field=edge.source,
            )
    if edge.credits < 1:
        raise GraphError(f"Edge {name}: credits must be at least 1.", field=edge.source)


def _check_acyclic(edges: Iterable[Edge]) -> None:
    following: dict[str, list[str]] = {}
    for edge in edges:
        following.setdefault(edge.source, []).append(edge.target)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            cycle = " -> ".join((*path[path.index(name) :], name))
            raise GraphError(f"The graph has a cycle: {cycle}.", field=name)
        if name not in done:
            for target in following.get(name, ()):
                visit(target, (*path, name))
            done.add(name)

    for source in following:
        visit(source, ())


def _check_task(task: Task, stages: set[str], edges: Iterable[Edge]) -> None:
    for what, names in (
        ("entry", task.entry),
        ("output", tuple(output.stage for output in task.outputs)),
    ):
        if not names:
            raise GraphError(f"Task {task.name!r} has no {what}.", field=task.name)
        _check_unique(f"task {task.name!r} {what}", names)
        for name in names:
            if name not in stages:
                raise GraphError(
                    f"Task {task.name!r}: its {what} {name!r} is no stage.", field=task.name
                )
    _check_honours(task)
    _check_unique(f"task {task.name!r} field", (field.name for field in task.fields))
    for field in task.fields:
        _check_request_field(field, task)
    _check_outputs(task, edges)


def _check_honours(task: Task) -> None:
    unknown = sorted(task.honours.difference(_HONOURED)) if task.name == "speech" else []
    if unknown:
        close = difflib.get_close_matches(unknown[0], _HONOURED, n=1)
        raise GraphError(
            f"Task {task.name!r}: honours names {unknown[0]!r}, which is no field that a speech "
            f"model may honour.{f' Did you mean {close[0]!r}?' if close else ''}",
            hint=f"Known: {', '.join(_HONOURED)}. Fields of the model's own go into fields.",
            field=task.name,
        )


def _check_request_field(field: RequestField, task: Task) -> None:
    what = f"Task {task.name!r}: field {field.name!r}"
    default, low, high = field.default, field.minimum, field.maximum
    if default is not None and not _is_of_type(default, field.type):
        raise GraphError(
            f"{what} is of type {field.type}, but its default is {default!r}.", field=task.name
        )
    if low is not None and high is not None and not low <= high:
        raise GraphError(f"{what} has minimum {low} above maximum {high}.", field=task.name)
    if isinstance(default, (int, float)) and (
        (low is not None and not low <= default) or (high is not None and not default <= high)
    ):
        raise GraphError(
            f"{what} has a default, {default!r}, outside its minimum and maximum.", field=task.name
        )


def _is_of_type(value: object, kind: str) -> bool:
    wanted = _TYPES[kind]
    return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))


def _check_outputs(task: Task, edges: Iterable[Edge]) -> None:
    reached = _reached(task.entry, edges)
    for output in task.outputs:
        if not output.modality:
            raise GraphError(
                f"Task {task.name!r}: output {output.stage!r} has no modality.", field=output.stage
            )
        if output.modality == "audio" and (output.sample_rate or 0) <= 0:
            raise GraphError(
                f"Task {task.name!r}: output {output.stage!r} is audio without a sample rate.",
                field=output.stage,
            )
        if output.stage not in reached:
            raise GraphError(
                f"Task {task.name!r}: no way leads to its output {output.stage!r}.",
                field=output.stage,
            )


def _check_ends(graph: StageGraph) -> None:
    sources = {edge.source for edge in graph.edges}
    terminals = {output.stage for task in graph.tasks for output in task.outputs}
    for stage in graph.stages:
        if stage.name not in sources | terminals:
            raise GraphError(
                f"Stage {stage.name!r} is a terminal without an output type: it has no outbound "
                "edge and is no task's output.",
                field=stage.name,
            )


def _check_reached(graph: StageGraph) -> None:
    entries = {name for task in graph.tasks for name in task.entry}
    reached = _reached(entries, graph.edges)
    for stage in graph.stages:
        if stage.name not in reached:
            raise GraphError(
                f"Stage {stage.name!r} cannot be reached from any task's entry.", field=stage.name
            )


def _reached(start: Iterable[str], edges: Iterable[Edge]) -> set[str]:
    reached = set(start)
    grown = True
    while grown:
        more = {edge.target for edge in edges if edge.source in reached} - reached
        reached |= more
        grown = bool(more)
    return reached
