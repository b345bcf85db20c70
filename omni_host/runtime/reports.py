"""What the runtime tells whoever wants to know: progress, reports, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = [
    "RequestReport",
    "RuntimeObserver",
    "Snapshot",
    "StageProgress",
    "StageReport",
    "StageSnapshot",
    "State",
]

State = Literal["starting", "ready", "draining", "failed"]
Outcome = Literal["finished", "cancelled", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """How far a stage is with loading; `fraction` is 0..1 where it is known."""

    stage: str
    what: str
    fraction: float | None
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One request's time in one stage, in seconds.

    `queue_s` was spent waiting for a place or for the compute thread, `busy_s` on the
    request itself, waiting for inputs and credits left out.
    """

    stage: str
    queue_s: float
    busy_s: float
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReport:
    """How a request ended. `error` is the error's code if it failed; times in seconds."""

    id: str
    task: str
    outcome: Outcome
    error: str | None
    queue_s: float
    total_s: float


class RuntimeObserver(Protocol):
    """Called on the event loop; must neither block nor raise."""

    def stage_report(self, report: StageReport) -> None: ...
    def request_finished(self, report: RequestReport) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSnapshot:
    """`inside` counts the requests that the stage holds; `queued` those of them that wait
    for a place, as of its last sign of life."""

    stage: str
    process: str
    pid: int | None
    state: State
    inside: int
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The runtime at this moment. `queued` and `running` count requests."""

    state: State
    stages: tuple[StageSnapshot, ...]
    queued: int
    running: int
