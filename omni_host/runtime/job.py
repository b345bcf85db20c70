"""One request inside one stage: what `omni_host.stage.Job` promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, ParamSpec, Protocol, TypeVar

from omni_host.runtime.batcher import Entry
from omni_host.runtime.compute import Work
from omni_host.runtime.links import CLIENT, Link, StageLinks
from omni_host.runtime.messages import CLOSED
from omni_host.runtime.stage_faults import misuse
from omni_host.runtime.streams import InStream, OutStream
from omni_host.stage import RequestInfo

__all__ = ["Carrier", "StageJob", "Workshop"]

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Carrier(Protocol):
    """What takes a job's output to where it belongs."""

    def carry_payload(self, job: StageJob, link: Link, value: Any) -> None: ...
    def carry_chunk(self, job: StageJob, link: Link, chunk: Any) -> None: ...
    def carry_end(self, job: StageJob, link: Link) -> None: ...
    def carry_credit(self, job: StageJob, source: str, count: int) -> None: ...


class Workshop(Protocol):
    """Where a job's functions run."""

    async def compute(self, fn: Callable[[], Any]) -> Work: ...
    async def batch(self, fn: Callable[[Sequence[Any]], Sequence[Any]], item: Any) -> Entry: ...


class StageJob:
    """Lives from the request's opening until the stage has let go of it."""

    __slots__ = (
        "_carrier",
        "_in",
        "_out",
        "_payloads",
        "_sent",
        "_waited_s",
        "_waiters",
        "_workshop",
        "batch_size",
        "begun",
        "dropped",
        "entry",
        "error",
        "links",
        "number",
        "queue_s",
        "queued",
        "request",
        "stage",
        "task",
    )

    def __init__(
        self,
        number: int,
        stage: str,
        request: RequestInfo,
        links: StageLinks,
        carrier: Carrier,
        workshop: Workshop,
    ) -> None:
        self.number = number
        self.stage = stage
        self.request = request
        self.links = links
        self.error: BaseException | None = None
        self.dropped = False
        self.task: asyncio.Task[None] | None = None
        self.begun = False
        self.entry: Entry | None = None
        self.queued = self.queue_s = 0.0
        self.batch_size = 1
        self._waited_s = 0.0
        self._carrier = carrier
        self._workshop = workshop
        self._payloads: dict[str, Any] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._sent: list[str] = []
        self._in = {name: self._in_stream(name, size) for name, size in links.streams.items()}
        self._out = {name: OutStream(link.credits) for name, link in links.stream_targets.items()}

    @property
    def cancelled(self) -> bool:
        return self.dropped or self.error is not None

    @property
    def complete(self) -> bool:
        """Whether every payload is here."""
        return len(self._payloads) == len(self.links.payloads)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The payloads that are here, in the order of the graph's edges."""
        return {source: self._payloads[source] for source in self.links.payloads}

    @property
    def waited_s(self) -> float:
        """How long the stage waited for inputs, credits and its turn to compute."""
        streams = (*self._in.values(), *self._out.values())
        return self._waited_s + sum(stream.waited_s for stream in streams)

    # What stages call.

    async def payload(self, source: str | None = None) -> Any:
        source = source or self._only(self.links.payloads, "payload")
        if source not in self.links.payloads:
            raise ValueError(f"no payload of {source!r} comes to {self.stage!r} on this request")
        while source not in self._payloads:
            await self._wait()
        self._check()
        return self._payloads[source]

    async def payloads(self) -> Mapping[str, Any]:
        for source in self.links.payloads:
            await self.payload(source)
        return self.inputs

    def stream(self, source: str | None = None) -> AsyncIterator[Any]:
        source = source or self._only(tuple(self.links.streams), "stream")
        if source not in self._in:
            raise ValueError(f"no stream of {source!r} comes to {self.stage!r} on this request")
        return self._in[source]

    async def send(self, payload: Any, to: str | None = None) -> None:
        self._check()
        if not self.links.may_send:
            raise ValueError(
                f"send() leads nowhere, as no payload edge leaves {self.stage!r}: emit() a "
                f"chunk, or give the graph an Edge(source={self.stage!r}, ..., kind='payload')"
            )
        for link in self._links(self.links.payload_targets, to, "payload"):
            if link.target in self._sent:
                raise ValueError(f"a second payload for {link.target!r}")
            self._sent.append(link.target)
            self._carrier.carry_payload(self, link, payload)

    async def emit(self, chunk: Any, to: str | None = None) -> None:
        self._check()
        if not self.links.may_emit:
            raise ValueError(
                f"emit() leads nowhere, as no stream edge leaves {self.stage!r} and it is no "
                f"task's output: send() a payload, or give the graph an "
                f"Edge(source={self.stage!r}, ..., kind='stream')"
            )
        links = self._links(self.links.stream_targets, to, "stream")
        for link in links:
            await self._out[link.target].take()
        self._check()
        for link in links:
            if not self._out[link.target].closed:
                self._carrier.carry_chunk(self, link, chunk)

    async def compute(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._check()
        work = await self._workshop.compute(lambda: fn(*args, **kwargs))
        self._count_queue(work.started - work.queued)
        self._check()
        return work.result

    async def batch(
        self, fn: Callable[[Sequence[Item]], Sequence[Result]], item: Item, /
    ) -> Result:
        self._check()
        entry = await self._workshop.batch(fn, item)
        self._count_queue(entry.queue_s)
        self.batch_size = max(self.batch_size, entry.size)
        self._check()
        return entry.result

    # What arrives.

    def put_payload(self, source: str, value: Any) -> None:
        self._payloads[source] = value
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def put_chunk(self, source: str, chunk: Any) -> None:
        self._in[source].put(chunk)

    def end_stream(self, source: str) -> None:
        self._in[source].end()

    def give_credit(self, target: str, count: int) -> None:
        self._out[target].give(count)

    def awaits(self, process: str) -> bool:
        """Whether something is still to come from `process`."""
        return any(
            place == process
            and (
                (source in self.links.payloads and source not in self._payloads)
                or (source in self._in and not self._in[source].ended)
            )
            for source, place in self.links.sources.items()
        )

    # Its end.

    def deliver(self, result: Any) -> None:
        """Give `result` to every way out: what a `run_batch` call does instead of sending.

        Nothing was sent on the streams before, so they have a credit.
        """
        for link in self.links.payload_targets.values():
            self._sent.append(link.target)
            self._carrier.carry_payload(self, link, result)
        for link in self.links.stream_targets.values():
            self._out[link.target].take_now()
            self._carrier.carry_chunk(self, link, result)

    def close(self) -> None:
        """End the streams. Raises StageFailedError if a payload edge got nothing."""
        missing = [target for target in self.links.payload_targets if target not in self._sent]
        if missing:
            raise misuse(
                self.stage,
                f"it ended without a payload for {', '.join(missing)}; await job.send(...)",
            )
        for link in self.links.stream_targets.values():
            if link.target != CLIENT:
                self._carrier.carry_end(self, link)
        for source, stream in self._in.items():
            if not stream.ended:
                self._carrier.carry_credit(self, source, CLOSED)

    def release(self) -> None:
        """Let go of all that arrived, and of whatever refers back to the job: cycles would
        be left to the garbage collector, which costs more than the request."""
        self._payloads.clear()
        for stream in self._in.values():
            stream.drop()
        self._in.clear()
        self.entry = self.task = None

    def _check(self) -> None:
        if self.cancelled:
            raise asyncio.CancelledError

    def _only(self, sources: Sequence[str], what: str) -> str:
        if len(sources) != 1:
            raise ValueError(f"{self.stage!r} has {len(sources)} {what} sources; name one")
        return sources[0]

    def _links(self, links: Mapping[str, Link], to: str | None, what: str) -> Sequence[Link]:
        if to is None:
            return tuple(links.values())
        if to not in links:
            raise ValueError(f"{self.stage!r} has no {what} to {to!r} on this request")
        return (links[to],)

    def _in_stream(self, source: str, window: int) -> InStream:
        return InStream(window, lambda count: self._carrier.carry_credit(self, source, count))

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        since = perf_counter()
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)
            self._waited_s += perf_counter() - since

    def _count_queue(self, seconds: float) -> None:
        self.queue_s += seconds
        self._waited_s += seconds
