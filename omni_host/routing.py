"""Which way a request takes through the graph, from its task and its tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omni_host.errors import InvalidRequestError
from omni_host.graph import Edge, Output, StageGraph, Task

__all__ = ["REQUEST", "Route", "Router", "StageRoute"]

REQUEST = "request"
"""The source of the payload that came with the request itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRoute:
    """What one stage takes in and gives out for the requests of a route.

    Attributes:
        payloads: sources of the payloads it gets, `REQUEST` among them at an entry.
        streams: sources of its streams, each with the edge's credits.
        payload_targets: stages that get a payload of it.
        stream_targets: stages that get a stream of it.
        output: what it yields to the client, or None.
    """

    payloads: tuple[str, ...]
    streams: Mapping[str, int]
    payload_targets: tuple[str, ...]
    stream_targets: tuple[str, ...]
    output: Output | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The stages that take part, in the order of the graph, and the outputs selected."""

    stages: Mapping[str, StageRoute]
    entry: tuple[str, ...]
    outputs: tuple[Output, ...]


class Router:
    """Routes of one graph; those asked for before are remembered."""

    def __init__(self, graph: StageGraph) -> None:
        self._graph = graph
        self._tasks = {task.name: task for task in graph.tasks}
        self._routes: dict[tuple[str, frozenset[str]], Route] = {}

    def task(self, name: str) -> Task:
        """The task of that name. Raises InvalidRequestError if the model has none."""
        found = self._tasks.get(name)
        if found is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise InvalidRequestError(
                f"This model has no task {name!r}; it has: {known}.", field="task"
            )
        return found

    def route(self, task: str, tags: frozenset[str]) -> Route:
        """The way of a request with these tags.

        Raises InvalidRequestError for an unknown task, a modality that the task does not
        yield, and tags for which no way leads to an output.
        """
        key = (task, tags)
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = _route(self._graph, self.task(task), tags)
        return found


def _route(graph: StageGraph, task: Task, tags: frozenset[str]) -> Route:
    outputs = _outputs(task, tags)
    edges = [edge for edge in graph.edges if not edge.when or edge.when & tags]
    reached = _closure(task.entry, ((edge.source, edge.target) for edge in edges))
    for output in outputs:
        if output.stage not in reached:
            raise InvalidRequestError(
                f"Task {task.name!r} yields no {output.modality} for a request with "
                f"{', '.join(sorted(tags))}.",
                field="modalities",
            )
    useful = _closure(
        (output.stage for output in outputs), ((edge.target, edge.source) for edge in edges)
    )
    active = reached & useful
    edges = [edge for edge in edges if edge.source in active and edge.target in active]
    names = [stage.name for stage in graph.stages if stage.name in active]
    entry = tuple(name for name in task.entry if name in active)
    by_stage = {output.stage: output for output in outputs}
    return Route(
        stages={name: _stage_route(name, edges, entry, by_stage.get(name)) for name in names},
        entry=entry,
        outputs=outputs,
    )


def _outputs(task: Task, tags: frozenset[str]) -> tuple[Output, ...]:
    wanted = {tag.removeprefix("out:") for tag in tags if tag.startswith("out:")}
    unknown = wanted - {output.modality for output in task.outputs}
    if unknown:
        raise InvalidRequestError(
            f"Task {task.name!r} does not yield {', '.join(sorted(unknown))}.", field="modalities"
        )
    if not wanted:
        return task.outputs
    return tuple(output for output in task.outputs if output.modality in wanted)


def _closure(start: Iterable[str], steps: Iterable[tuple[str, str]]) -> set[str]:
    following: dict[str, list[str]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    reached: set[str] = set()
    pending = list(start)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(following.get(name, ()))
    return reached


def _stage_route(
    name: str, edges: list[Edge], entry: tuple[str, ...], output: Output | None
) -> StageRoute:
    inbound = [edge for edge in edges if edge.target == name]
    outbound = [edge for edge in edges if edge.source == name]
    payloads = [edge.source for edge in inbound if edge.kind == "payload"]
    if name in entry:
        payloads.insert(0, REQUEST)
    return StageRoute(
        payloads=tuple(payloads),
        streams={edge.source: edge.credits for edge in inbound if edge.kind == "stream"},
        payload_targets=tuple(edge.target for edge in outbound if edge.kind == "payload"),
        stream_targets=tuple(edge.target for edge in outbound if edge.kind == "stream"),
        output=output,
    )
