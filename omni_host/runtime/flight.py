"""A request on its way: what the coordinator knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from omni_host.graph import Output
from omni_host.routing import Route
from omni_host.runtime.generation import Generation, Request

__all__ = ["Flight", "FlightPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """A route with its processes.

    Attributes:
        places: the process of each stage that takes part.
        processes: those, each once, and whether it holds an entry stage.
        outputs: the selected outputs by stage.
        tags: sorted, as they travel.
    """

    route: Route
    places: Mapping[str, str]
    processes: Mapping[str, bool]
    outputs: Mapping[str, Output]
    tags: tuple[str, ...]


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
