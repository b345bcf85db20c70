"""Running a pipeline of toy stages in a test, and looking at what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil

from omni_host.deployment import Deployment
from omni_host.runtime import Limits, OutputChunk, Pipeline, Request
from tests.runtime.deployments import plugins

T = TypeVar("T")

PATIENCE_S = 60.0

_numbers = itertools.count()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def alone() -> T:
        result = await asyncio.wait_for(coroutine, PATIENCE_S)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(alone())


@contextlib.asynccontextmanager
async def running(
    deployment: Deployment, limits: Limits | None = None, **options: Any
) -> AsyncIterator[Pipeline]:
    pipeline = Pipeline(deployment, plugins(), limits=limits or Limits(), **options)
    await pipeline.start()
    try:
        yield pipeline
    finally:
        await pipeline.stop(0.0)


def request(task: str = "t", **fields: Any) -> Request:
    fields.setdefault("id", f"r{next(_numbers)}")
    fields.setdefault("payload", {"text": "hi"})
    return Request(task=task, **fields)


async def ask(pipeline: Pipeline, task: str = "t", **fields: Any) -> list[OutputChunk]:
    async with pipeline.submit(request(task, **fields)) as generation:
        return [chunk async for chunk in generation]


async def answer(pipeline: Pipeline, task: str = "t", **fields: Any) -> list[Any]:
    return [chunk.data for chunk in await ask(pipeline, task, **fields)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's patience is the limit."""
    while not condition():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)


def holding(pipeline: Pipeline) -> dict[str, int]:
    return {stage.stage: stage.inside for stage in pipeline.snapshot().stages if stage.inside}


def pid_of(pipeline: Pipeline, stage: str) -> int:
    (found,) = (s.pid for s in pipeline.snapshot().stages if s.stage == stage)
    assert found is not None
    return found


def worker_descriptors() -> dict[int, int]:
    return {child.pid: child.num_fds() for child in psutil.Process().children()}


def left_behind() -> dict[str, Any]:
    """What a pipeline must not leave: child processes, descriptors, shared memory, folders."""
    gc.collect()
    process = psutil.Process()
    return {
        "children": {child.pid for child in process.children(recursive=True)},
        "descriptors": process.num_fds(),
        "segments": {path.name for path in Path("/dev/shm").glob("omni-*")},
        "folders": {path.name for path in Path(tempfile.gettempdir()).glob("omni-*")},
    }
