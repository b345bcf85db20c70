"""A pipeline that says what a test tells it to, behind the runtime's interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import numpy as np

from omni_host.deployment import Deployment
from omni_host.errors import DrainingError, OmniError
from omni_host.graph import Output, RequestField, StageGraph, StageSpec, Task
from omni_host.offers import LauncherSpec, ModelRef, PlatformProbe
from omni_host.plugins.lock import Lock
from omni_host.runtime import OutputChunk, Request

RATE = 24_000
Script = Callable[[Request], AsyncIterator[OutputChunk]]

SPEECH = Task(
    name="speech",
    entry=("talker",),
    outputs=(Output(stage="talker", modality="audio", sample_rate=RATE),),
    voices=("ada", "bob"),
    honours=frozenset({"instructions"}),
    fields=(
        RequestField(name="top_k", type="integer", description="", default=50, minimum=1),
        RequestField(name="temperature", type="number", description="", maximum=2),
        RequestField(name="language", type="string", description="", choices=("en", "de")),
        RequestField(name="greedy", type="boolean", description="", default=False),
        RequestField(name="reference", type="audio", description=""),
    ),
    max_characters=200,
)


def deployment(task: Task = SPEECH, name: str = "toy/talker") -> Deployment:
    return Deployment(
        model=ModelRef(reference=name),
        name=name,
        owner="toy",
        graph=StageGraph(stages=(StageSpec(name="talker", target="toy:Talker"),), tasks=(task,)),
        platform=PlatformProbe(name="cpu", devices=("cpu",), priority=0),
        stages=(),
        edges=(),
        processes=(),
        transports=(),
        launcher=LauncherSpec(name="local", target="toy:launch"),
        lock=Lock(python="python", plugins=()),
    )


def samples(count: int, start: int = 0) -> np.ndarray:
    """A sine of 440 Hz, so that every sample tells its place."""
    return np.sin(np.arange(start, start + count) * (2 * np.pi * 440 / RATE)).astype(np.float32)


def chunk(count: int = 2400, start: int = 0) -> OutputChunk:
    return OutputChunk(modality="audio", data=samples(count, start), sample_rate=RATE)


async def three_chunks(_request: Request) -> AsyncIterator[OutputChunk]:
    for start in range(0, 7200, 2400):
        yield chunk(2400, start)


async def without_end(_request: Request) -> AsyncIterator[OutputChunk]:
    while True:
        await asyncio.sleep(0.001)
        yield chunk()


async def silent(_request: Request) -> AsyncIterator[OutputChunk]:
    """Never comes to its first chunk."""
    await asyncio.Event().wait()
    yield chunk()


def failing(error: Exception, *, after: int) -> Script:
    async def script(_request: Request) -> AsyncIterator[OutputChunk]:
        for _ in range(after):
            yield chunk()
        raise error

    return script


class FakePipeline:
    """`submitted` are the requests; `open` those whose generation is in use."""

    def __init__(self, script: Script = three_chunks, *, refusal: OmniError | None = None) -> None:
        self.script = script
        self.refusal = refusal
        self.state = "ready"
        self.submitted: list[Request] = []
        self.open: list[Request] = []
        self.cancelled: list[Request] = []
        self.start_error: OmniError | None = None
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.stops: list[float] = []
        self.opened = asyncio.Event()
        self.cut_off = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def start(self, progress=None) -> None:
        self.state = "starting"
        await self.may_start.wait()
        if self.start_error:
            raise self.start_error
        self.state = "ready"

    async def stop(self, drain_s: float) -> None:
        self.stops.append(drain_s)
        self.state = "draining"
        if drain_s:
            await self.idle.wait()
        self.cut_off.set()

    def submit(self, request: Request) -> FakeGeneration:
        if self.refusal:
            raise self.refusal
        if self.state == "draining":
            raise DrainingError("The server is stopping.", retry_after=5)
        self.submitted.append(request)
        return FakeGeneration(self, request)

    def snapshot(self) -> SimpleNamespace:
        stage = SimpleNamespace(
            stage="talker",
            process="talker",
            pid=7,
            state=self.state,
            inside=len(self.open),
            queued=0,
        )
        return SimpleNamespace(state=self.state, stages=(stage,), queued=0, running=len(self.open))


class FakeGeneration:
    def __init__(self, pipeline: FakePipeline, request: Request) -> None:
        self.pipeline = pipeline
        self.request = request
        self.chunks = pipeline.script(request)
        self.finished = False

    async def __aenter__(self) -> FakeGeneration:
        self.pipeline.open.append(self.request)
        self.pipeline.opened.set()
        self.pipeline.idle.clear()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.pipeline.open.remove(self.request)
        if not self.finished:
            self.pipeline.cancelled.append(self.request)
        if not self.pipeline.open:
            self.pipeline.idle.set()
        await self.chunks.aclose()

    def __aiter__(self) -> FakeGeneration:
        return self

    async def __anext__(self) -> OutputChunk:
        coming = asyncio.ensure_future(anext(self.chunks))
        cut_off = asyncio.ensure_future(self.pipeline.cut_off.wait())
        try:
            await asyncio.wait((coming, cut_off), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise DrainingError("The server stopped.")
            return coming.result()
        except (StopAsyncIteration, OmniError):
            self.finished = True
            raise
        finally:
            coming.cancel()
            cut_off.cancel()
            await asyncio.gather(coming, cut_off, return_exceptions=True)
