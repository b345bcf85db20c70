"""What the author of a stage writes against.

`StageSpec.target` names a callable that takes a `StageContext` and returns an
object with one of two methods:

- `run_batch(calls)`: one payload in, one payload out, several requests at once.
  A plain method runs in the stage's compute thread, an `async` one on the
  event loop (it must not block).
- `async process(job)`: everything else: streams in and out, several inputs,
  state that lives as long as a request.

and, if it wants, `close()`, called once before the process ends.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

from omni_host.offers import EngineSpec, ModelRef, PlatformProbe

__all__ = ["BatchStage", "Call", "FlowStage", "Job", "RequestInfo", "StageContext"]

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class ProgressReport(Protocol):
    """`report("loading weights", 0.4)`; the fraction may be left out."""

    def __call__(self, what: str, fraction: float | None = None, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageContext:
    """What a stage knows when it is built, in its own process.

    Attributes:
        name: the stage's name in the graph.
        device: in torch's spelling, already chosen (`cpu`, `cuda:0`).
        server_args: the merged arguments (owner < platform < others < operator).
        model: the model served; `model.path` is its folder.
        platform: the hardware in use.
        engine: the engine chosen for this stage, if it has one.
        report: progress of loading, shown to whoever waits.
        log: the stage's logger.
    """

    name: str
    device: str
    server_args: Mapping[str, Any]
    model: ModelRef
    platform: PlatformProbe
    engine: EngineSpec | None
    report: ProgressReport
    log: logging.Logger


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """What every stage knows of a request.

    Attributes:
        id: the client's view of it, unique in the server's life, as in the logs.
        task: the name of the `Task`.
        tags: `in:<modality>` and `out:<modality>`, which the edges route by.
    """

    id: str
    task: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request's turn in `run_batch`: its inputs by source stage.

    The payload that came with the request itself has the source `request`.
    """

    request: RequestInfo
    inputs: Mapping[str, Any]

    @property
    def input(self) -> Any:
        """The only input. Raises ValueError if there are several."""
        (value,) = self.inputs.values()
        return value


class BatchStage(Protocol):
    """Payload in, payload out."""

    def run_batch(self, calls: Sequence[Call]) -> Sequence[Any] | Awaitable[Sequence[Any]]:
        """Return one result a call, in order.

        An `OmniError` in place of a result fails that request alone; raising fails
        the whole batch with `StageFailedError`.
        """
        ...


class Job(Protocol):
    """One request inside one stage, for as long as `process` runs.

    When the request is cancelled, `process` is cancelled like any asyncio task at
    its next `await`; work in a compute thread is let finish and its result dropped.
    When `process` returns, its streams end; a payload edge that got nothing is an error,
    and so is a result other than None: what it makes is sent, not returned.
    """

    @property
    def request(self) -> RequestInfo: ...

    @property
    def cancelled(self) -> bool:
        """True once nobody wants the result; long compute functions should look."""
        ...

    async def payload(self, source: str | None = None) -> Any:
        """The payload of `source`, or of the only payload edge that is in use."""
        ...

    async def payloads(self) -> Mapping[str, Any]:
        """Fan-in: every payload this request brings to the stage, by source."""
        ...

    def stream(self, source: str | None = None) -> AsyncIterator[Any]:
        """The chunks of `source`, in order; each one consumed gives a credit back."""
        ...

    async def send(self, payload: Any, to: str | None = None) -> None:
        """Send the payload of one edge, or the same to every payload edge in use.

        Carried are None, bool, int, float, str, bytes, list, dict with str keys, numpy and
        torch tensors, nested at will. Raises WireError for anything else, and ValueError if
        no payload edge leaves the stage.
        """
        ...

    async def emit(self, chunk: Any, to: str | None = None) -> None:
        """Send a chunk to one stream, or to every stream edge in use and the client.

        The client's stream is named `client`; audio for it is a float32 array [samples],
        mono, -1..1, and text a str (StageFailedError otherwise). Carried are None, bool, int,
        float, str, bytes, list, dict with str keys, numpy and torch tensors, nested at will.
        Raises WireError for anything else, and ValueError if no stream leaves the stage.

        Waits while a receiver has no credit.
        Between stages of one process a chunk goes by reference: do not change it afterwards.
        """
        ...

    async def compute(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn` in the stage's compute thread, one at a time for each stage."""
        ...

    async def batch(
        self, fn: Callable[[Sequence[Item]], Sequence[Result]], item: Item, /
    ) -> Result:
        """Run `fn` in the compute thread on this item and those of other requests.

        Gathered as `StageSpec.batching` says; each `fn` has a queue of its own.
        """
        ...


class FlowStage(Protocol):
    """A coroutine for each request."""

    async def process(self, job: Job) -> None: ...
