"""A request, and the client's end of what becomes of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from omni_host.errors import OmniError
from omni_host.graph import Output

__all__ = ["Generation", "OutputChunk", "Request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks for.

    Attributes:
        id: unique among the requests that are running or queued.
        task: the name of one of the graph's tasks.
        payload: what the task's entry stages receive.
        inputs: the modalities that come in; edges route by them.
        outputs: the modalities wanted; all that the task has when empty.
        deadline_s: seconds from now, the queue included; None for the limit's.
    """

    id: str
    task: str
    payload: Mapping[str, Any]
    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    deadline_s: float | None = None

    def tags(self) -> frozenset[str]:
        return frozenset({f"in:{name}" for name in self.inputs}) | {
            f"out:{name}" for name in self.outputs
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A chunk of one output: audio is float32 [samples] at `sample_rate` Hz, text a string."""

    modality: str
    data: Any
    sample_rate: int | None


class Generation:
    """Iterate over it inside `async with`: leaving early cancels the request everywhere.

    Iterating raises the typed error by which the request failed. `consumed(stage, count)`
    returns the credits of chunks that were read.
    """

    def __init__(
        self,
        request: Request,
        lump: int,
        consumed: Callable[[str, int], None],
        cancel: Callable[[], None],
    ) -> None:
        self.request = request
        self._lump = lump
        self._consumed = consumed
        self._cancel = cancel
        self._chunks: deque[tuple[Output, Any]] = deque()
        self._read: dict[str, int] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: OmniError | None = None

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> OutputChunk:
        while True:
            if self._error is not None:
                raise self._error
            if self._chunks:
                return self._next()
            if self._ended:
                raise StopAsyncIteration
            await self._wait()

    def cancel(self) -> None:
        """Nobody wants the rest. Does nothing once the request has ended."""
        self._cancel()
        self._chunks.clear()

    # The coordinator's side.

    def put(self, output: Output, data: Any) -> None:
        self._chunks.append((output, data))
        self._wake()

    def end(self, error: OmniError | None) -> None:
        """No more chunks come. With an error those not read yet are dropped."""
        self._ended = True
        self._error = error
        self._cancel, self._consumed = _no_cancel, _not_counted
        if error is not None:
            self._chunks.clear()
        self._wake()

    def _next(self) -> OutputChunk:
        output, data = self._chunks.popleft()
        if not self._ended:
            self._count(output.stage)
        return OutputChunk(modality=output.modality, data=data, sample_rate=output.sample_rate)

    def _count(self, stage: str) -> None:
        count = self._read.get(stage, 0) + 1
        if count >= self._lump:
            self._consumed(stage, count)
            count = 0
        self._read[stage] = count

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two tasks read one generation")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


# What takes the coordinator's place at the end, so that no cycle is left to the garbage
# collector.
def _no_cancel() -> None: ...
def _not_counted(_stage: str, _count: int) -> None: ...
