"""Gathering calls into batches, by size and a short wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from omni_host.graph import Batching

__all__ = ["Batcher", "Entry"]


class Entry:
    """One item on its way through a batch.

    `settle(entry)` is called on the loop when the batch has run: `result` or `error` is
    set, and `queue_s`, `busy_s` and `size` tell what happened.
    """

    __slots__ = (
        "busy_s",
        "error",
        "item",
        "queue_s",
        "queued",
        "result",
        "running",
        "settle",
        "size",
    )

    def __init__(self, item: Any, settle: Callable[[Entry], None]) -> None:
        self.item = item
        self.settle = settle
        self.result: Any = None
        self.error: BaseException | None = None
        self.queued = perf_counter()
        self.queue_s = self.busy_s = 0.0
        self.size = 0
        self.running = False


class Batcher:
    """`start(entries)` is called with each batch; whoever runs it calls `finish` afterwards.

    A full batch leaves at once. One that is not leaves when its first item has waited
    long enough and no other batch is running: until then more can join.
    """

    def __init__(self, batching: Batching, start: Callable[[list[Entry]], None]) -> None:
        self._size = batching.max_size
        self._wait_s = batching.max_wait_s
        self._start = start
        self._waiting: deque[Entry] = deque()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running

    def add(self, entry: Entry) -> None:
        self._waiting.append(entry)
        self._advance()

    def withdraw(self, entry: Entry) -> bool:
        """Take an item back. False if it is running already."""
        if entry.running:
            return False
        self._waiting.remove(entry)
        return True

    def finish(
        self,
        entries: list[Entry],
        results: list[Any],
        error: BaseException | None,
        started: float,
        ended: float,
    ) -> None:
        """Settle a batch that ran from `started` to `ended` (of `perf_counter`).

        There is one result an entry, unless there is an error.
        """
        self._running -= 1
        for index, entry in enumerate(entries):
            entry.queue_s = started - entry.queued
            entry.busy_s = ended - started
            entry.size = len(entries)
            if error is not None:
                entry.error = error
            elif isinstance(results[index], BaseException):
                entry.error = results[index]
            else:
                entry.result = results[index]
            entry.settle(entry)
        self._advance()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _advance(self) -> None:
        while len(self._waiting) >= self._size:
            self._leave()
        if not self._waiting:
            self.close()
        elif self._timer is None:
            left = self._waiting[0].queued + self._wait_s - perf_counter()
            if left > 0:
                self._timer = asyncio.get_running_loop().call_later(left, self._due)
            elif not self._running:
                self._leave()

    def _due(self) -> None:
        self._timer = None
        self._advance()

    def _leave(self) -> None:
        entries = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
        for entry in entries:
            entry.running = True
        self._running += 1
        self._start(entries)
