"""How many requests run and how many may wait."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from omni_host.errors import DrainingError, QueueFullError
from omni_host.runtime.flight import Flight

__all__ = ["Admission", "Limits"]

_MOST_RETRY_S = 60
_DURATION_WEIGHT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Attributes:
    max_running: requests inside the stages at once.
    max_queued: requests that may wait for that; more are refused.
    deadline_s: of requests that bring none; None for no deadline.
    result_credits: how many chunks a client may leave unread before the stage waits.
    """

    max_running: int = 64
    max_queued: int = 256
    deadline_s: float | None = None
    result_credits: int = 8


class Admission:
    """First come, first served, except past requests whose stages are not there just now."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[Flight] = deque()
        self._running = 0
        self._typical_s = 0.0
        self.draining = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._running

    @property
    def idle(self) -> bool:
        return not self._queue and not self._running

    def enter(self, flight: Flight) -> None:
        """Queue a request. Raises QueueFullError or DrainingError."""
        if self.draining:
            raise DrainingError(
                "The server is stopping and takes no new requests.", retry_after=self._retry_after()
            )
        has_room = self._running < self._limits.max_running
        if (self._queue or not has_room) and len(self._queue) >= self._limits.max_queued:
            raise QueueFullError(
                f"{self._running} requests are running and {len(self._queue)} are waiting, "
                "which is all this server takes.",
                hint="Try again later, or raise limits.max_queued.",
                retry_after=self._retry_after(),
            )
        self._queue.append(flight)

    def next(self, can_start: Callable[[Flight], bool]) -> Flight | None:
        """The request to start now, if there is room and one that can start."""
        if self._running >= self._limits.max_running:
            return None
        for flight in self._queue:
            if can_start(flight):
                self._queue.remove(flight)
                self._running += 1
                return flight
        return None

    def withdraw(self, flight: Flight) -> None:
        """Take a queued request out."""
        self._queue.remove(flight)

    def leave(self, seconds: float) -> None:
        """A request that ran has left every stage after `seconds`."""
        self._running -= 1
        weight = _DURATION_WEIGHT if self._typical_s else 1.0
        self._typical_s += weight * (seconds - self._typical_s)

    def waiting(self) -> tuple[Flight, ...]:
        return tuple(self._queue)

    def _retry_after(self) -> int:
        ahead = len(self._queue) + 1
        seconds = self._typical_s * ahead / self._limits.max_running
        return min(_MOST_RETRY_S, max(1, math.ceil(seconds)))
