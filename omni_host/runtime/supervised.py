"""One supervised process: its plan, its present life and its record."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from omni_host.deployment import ProcessPlan
from omni_host.errors import OmniError
from omni_host.graph import StageSpec
from omni_host.runtime.launcher import ProcessHandle
from omni_host.runtime.reports import State

__all__ = ["Health", "SupervisedProcess"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Attributes:
    start_s: how long all stages of a process may take until they are ready.
    ping_s: seconds between two signs of life.
    limit_s: a process that gives none for so long is killed.
    failures: so many deaths within `failures_s` seconds, and it is not started again.
    backoff_s: the pause before the first restart; it doubles up to `backoff_most_s`.
    stop_s: how long a process may take to stop before it is killed.
    """

    start_s: float = 600.0
    ping_s: float = 0.5
    limit_s: float = 10.0
    failures: int = 5
    failures_s: float = 60.0
    backoff_s: float = 0.1
    backoff_most_s: float = 5.0
    stop_s: float = 5.0


class SupervisedProcess:
    """Each life has an endpoint of its own, so that what an earlier one sent is told apart."""

    def __init__(self, plan: ProcessPlan, stages: Sequence[StageSpec]) -> None:
        self.plan = plan
        self.stages = tuple(stages)
        self.handle: ProcessHandle | None = None
        self.state: State = "starting"
        self.endpoint = ""
        self.address = ""
        self.queued: dict[str, int] = {}
        self.unanswered = 0
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._generation = 0
        self._loading: set[str] = set()
        self._ready: asyncio.Future[None] | None = None
        self._deaths: deque[float] = deque()

    @property
    def name(self) -> str:
        return self.plan.name

    def begin(self, folder: str) -> None:
        """A new life; nothing is started yet."""
        self._generation += 1
        self.endpoint = f"{self.name}.{self._generation}"
        self.address = f"ipc://{folder}/{self.endpoint}"
        self.state = "starting"
        self.unanswered = 0
        self._loading = {stage.name for stage in self.stages}
        self._ready = asyncio.get_running_loop().create_future()

    async def ready(self) -> None:
        """Wait until every stage is ready. Raises the error by which one did not start."""
        assert self._ready is not None
        await self._ready

    def stage_ready(self, stage: str) -> None:
        self._loading.discard(stage)
        if not self._loading and self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def start_failed(self, error: OmniError) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)

    def note_death(self, health: Health) -> float | None:
        """Seconds to wait before the next life, or None if it died too often."""
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - health.failures_s:
            self._deaths.popleft()
        if len(self._deaths) >= health.failures:
            return None
        return min(health.backoff_most_s, health.backoff_s * 2 ** (len(self._deaths) - 1))
