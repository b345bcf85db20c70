"""The two ends of a stream and the credits between them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

__all__ = ["InStream", "OutStream"]


class InStream:
    """The reading end: chunks in order, at most `credits` of them unread.

    `give_back(count)` returns credits to the source, in lumps of half the window, so
    that a message carries several.
    """

    __slots__ = ("_chunks", "_give_back", "_lump", "_read", "_waiter", "ended", "waited_s")

    def __init__(self, credits: int, give_back: Callable[[int], None]) -> None:  # noqa: A002
        self._chunks: deque[Any] = deque()
        self._give_back = give_back
        self._lump = max(1, credits // 2)
        self._read = 0
        self._waiter: asyncio.Future[None] | None = None
        self.ended = False
        self.waited_s = 0.0

    def put(self, chunk: Any) -> None:
        self._chunks.append(chunk)
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def drop(self) -> None:
        """Nobody will read it any more."""
        self._chunks.clear()

    def __aiter__(self) -> InStream:
        return self

    async def __anext__(self) -> Any:
        while not self._chunks:
            if self.ended:
                raise StopAsyncIteration
            await self._wait()
        chunk = self._chunks.popleft()
        self._read += 1
        if self._read >= self._lump and not self.ended:
            self._give_back(self._read)
            self._read = 0
        return chunk

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two tasks read one stream")
        self._waiter = asyncio.get_running_loop().create_future()
        since = perf_counter()
        try:
            await self._waiter
        finally:
            self._waiter = None
            self.waited_s += perf_counter() - since

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class OutStream:
    """The writing end: counts credits; `closed` once the target reads no more."""

    __slots__ = ("_credits", "_waiters", "closed", "waited_s")

    def __init__(self, credits: int) -> None:  # noqa: A002
        self._credits = credits
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.closed = False
        self.waited_s = 0.0

    def give(self, count: int) -> None:
        """Take credits back from the target; a negative count closes the stream."""
        if count < 0:
            self.closed = True
        else:
            self._credits += count
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def take(self) -> None:
        """Wait for a credit and use it; returns at once when the stream is closed."""
        while self._credits <= 0 and not self.closed:
            await self._wait()
        self._credits -= 1

    def take_now(self) -> None:
        """Use a credit that is known to be there: of a stream on which nothing was sent."""
        self._credits -= 1

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        since = perf_counter()
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)
            self.waited_s += perf_counter() - since
