"""A request on its way: what the coordinator knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from omni_host.graph import Output, StageGraph
from omni_host.routing import Router
from omni_host.runtime.generation import Generation, Request

__all__ = ["Flight", "FlightPlan", "FlightPlans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """A route as the host needs it.

    Attributes:
        places: the process of each stage that takes part.
        processes: those, each once, and whether it holds an entry stage.
        outputs: the selected outputs by stage.
        tags: sorted, as they travel.
    """

    places: Mapping[str, str]
    processes: Mapping[str, bool]
    outputs: Mapping[str, Output]
    tags: tuple[str, ...]


class FlightPlans:
    """The plans of one graph; those asked for before are remembered."""

    def __init__(self, graph: StageGraph, placement: Mapping[str, str]) -> None:
        self._router = Router(graph)
        self._placement = placement
        self._plans: dict[tuple[str, frozenset[str]], FlightPlan] = {}

    def of(self, task: str, tags: frozenset[str]) -> FlightPlan:
        """Raises InvalidRequestError as `Router.route` does."""
        plan = self._plans.get((task, tags))
        if plan is None:
            plan = self._plans[task, tags] = self._make(task, tags)
        return plan

    def _make(self, task: str, tags: frozenset[str]) -> FlightPlan:
        route = self._router.route(task, tags)
        places = {stage: self._placement[stage] for stage in route.stages}
        entries = {places[stage] for stage in route.entry}
        return FlightPlan(
            places=places,
            processes={process: process in entries for process in places.values()},
            outputs={output.stage: output for output in route.outputs},
            tags=tuple(sorted(tags)),
        )


class Flight:
    """`number` is 0 while it is queued; `holders` are the stages that have not let go."""

    __slots__ = (
        "ended",
        "generation",
        "holders",
        "number",
        "plan",
        "request",
        "started",
        "submitted",
        "timer",
        "unfinished",
    )

    generation: Generation

    def __init__(self, request: Request, plan: FlightPlan) -> None:
        self.request = request
        self.plan = plan
        self.number = 0
        self.holders: set[str] = set()
        self.unfinished = set(plan.outputs)
        self.ended = False
        self.timer: asyncio.TimerHandle | None = None
        self.submitted = perf_counter()
        self.started = 0.0
