"""A stage's compute thread: one function at a time, results handed back to the loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from omni_host.runtime.latch import Latch

__all__ = ["ComputeThread", "Work"]

_log = logging.getLogger(__name__)


class Work:
    """One function for the compute thread; times are of `perf_counter`."""

    __slots__ = ("_taken", "done", "ended", "error", "fn", "queued", "result", "started")

    def __init__(self, fn: Callable[[], Any], done: Callable[[Work], None]) -> None:
        self.fn = fn
        self.done = done
        self.result: Any = None
        self.error: BaseException | None = None
        self.queued = perf_counter()
        self.started = self.ended = 0.0
        self._taken = threading.Lock()

    def take(self) -> bool:
        """Claim it, for running or for dropping; True for the first to ask."""
        return self._taken.acquire(blocking=False)

    def run(self) -> None:
        self.started = perf_counter()
        try:
            self.result = self.fn()
        except BaseException as error:  # noqa: BLE001 - a stage's code; the loop raises it again
            self.error = error
        self.ended = perf_counter()


class ComputeThread:
    """Starts with the first work. It is a daemon: a function that hangs holds up nobody."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._todo: SimpleQueue[Work | None] = SimpleQueue()
        self._finished: deque[Work] = deque()
        self._waking = False
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[[], Any], done: Callable[[Work], None]) -> Work:
        """Run `fn`; `done(work)` is called on the loop, unless somebody else took the work."""
        work = Work(fn, done)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._todo.put(work)
        return work

    async def run(self, fn: Callable[[], Any]) -> Work:
        """Run `fn` and return its work; raises what it raised.

        When cancelled, a function that has not begun is dropped; one that has is let
        finish first, so that nobody frees what it still uses.
        """
        latch = Latch()
        work = self.submit(fn, lambda _: latch.set())
        try:
            await latch.wait()
        except asyncio.CancelledError:
            if not work.take():
                await latch.wait_through()
            raise
        if work.error is not None:
            raise work.error
        return work

    def close(self) -> None:
        """Let the thread end after what it has to do; it is not waited for."""
        if self._thread is not None:
            self._todo.put(None)

    def _serve(self) -> None:
        while (work := self._todo.get()) is not None:
            if work.take():
                work.run()
                self._finished.append(work)
                del work
                self._wake()

    def _wake(self) -> None:
        if self._waking:
            return
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed: the process is ending
            self._waking = False

    def _deliver(self) -> None:
        self._waking = False
        while self._finished:
            work = self._finished.popleft()
            try:
                work.done(work)
            except Exception:  # noqa: BLE001 - what else has finished must be handed on
                _log.exception("%s: a result was not taken", self._name)
