"""The edges of a route as one process sees them: by reference, or over which transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omni_host.deployment import Deployment
from omni_host.graph import Output
from omni_host.routing import Router, StageRoute

__all__ = ["CLIENT", "HOST", "Link", "Links", "StageLinks", "host_transport"]

CLIENT = "client"
"""The target of the stream that the client reads."""

HOST = "host"
"""The host's process and endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One way out of a stage. `process` is None where the target is in this process."""

    target: str
    process: str | None
    transport: str
    credits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLinks:
    """All ways in and out of a stage on one route.

    `sources` tells the process of each source of a payload or stream, None for this one.
    `output` is what the client gets of it. `may_send` and `may_emit` are False where no
    payload edge, or no stream, leaves the stage on any route.
    """

    payloads: tuple[str, ...]
    streams: Mapping[str, int]
    sources: Mapping[str, str | None]
    payload_targets: Mapping[str, Link]
    stream_targets: Mapping[str, Link]
    output: Output | None
    may_send: bool
    may_emit: bool


def host_transport(deployment: Deployment) -> str:
    """What carries tensors between the host and its workers, both on this machine."""
    names = [transport.name for transport in deployment.transports]
    return "shm" if "shm" in names else "inline"


class Links:
    """The links of the stages of `process`, for each route; those seen are remembered."""

    def __init__(self, deployment: Deployment, process: str, result_credits: int) -> None:
        self._process = process
        self._router = Router(deployment.graph)
        self._placement = {plan.spec.name: plan.process for plan in deployment.stages}
        self._edges = {
            (plan.edge.source, plan.edge.target, plan.edge.kind): plan for plan in deployment.edges
        }
        graph = deployment.graph
        self._senders = {edge.source for edge in graph.edges if edge.kind == "payload"}
        self._emitters = {edge.source for edge in graph.edges if edge.kind == "stream"}
        self._emitters |= {output.stage for task in graph.tasks for output in task.outputs}
        self._client = Link(
            target=CLIENT,
            process=HOST,
            transport=host_transport(deployment),
            credits=result_credits,
        )
        self._known: dict[tuple[str, tuple[str, ...]], Mapping[str, StageLinks]] = {}

    def of(self, task: str, tags: tuple[str, ...]) -> Mapping[str, StageLinks]:
        """By stage; empty if no stage of this process takes part."""
        found = self._known.get((task, tags))
        if found is None:
            route = self._router.route(task, frozenset(tags))
            found = self._known[task, tags] = {
                name: self._stage(name, stage)
                for name, stage in route.stages.items()
                if self._placement[name] == self._process
            }
        return found

    def _stage(self, name: str, route: StageRoute) -> StageLinks:
        streams = {target: self._link(name, target, "stream") for target in route.stream_targets}
        if route.output is not None:
            streams[CLIENT] = self._client
        sources = (*route.payloads, *route.streams)
        return StageLinks(
            payloads=route.payloads,
            streams=route.streams,
            sources={source: self._place(source) for source in sources},
            payload_targets={
                target: self._link(name, target, "payload") for target in route.payload_targets
            },
            stream_targets=streams,
            output=route.output,
            may_send=name in self._senders,
            may_emit=name in self._emitters,
        )

    def _place(self, stage: str) -> str | None:
        process = self._placement.get(stage, HOST)
        return None if process == self._process else process

    def _link(self, source: str, target: str, kind: str) -> Link:
        plan = self._edges[source, target, kind]
        return Link(
            target=target,
            process=self._place(target),
            transport=plan.transport,
            credits=plan.edge.credits,
        )
