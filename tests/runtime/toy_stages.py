"""Small stages without torch, for the tests and the benchmark of the runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from omni_host.errors import InvalidRequestError
from omni_host.stage import Call, Job, StageContext


class Join:
    """Appends its name to each input; several inputs are joined by `+`."""

    def __init__(self, context: StageContext) -> None:
        self.name = context.name
        self.delay_s = context.server_args.get("delay_s", 0.0)

    def run_batch(self, calls: Sequence[Call]) -> Sequence[str]:
        time.sleep(self.delay_s)
        return [
            "+".join(text(value) for value in call.inputs.values()) + f">{self.name}"
            for call in calls
        ]


class AsyncJoin(Join):
    """The same on the event loop."""

    async def run_batch(self, calls: Sequence[Call]) -> Sequence[str]:  # type: ignore[override]
        await asyncio.sleep(self.delay_s)
        return super().run_batch(calls)


class Echo:
    """Gives back what it got, on the event loop."""

    def __init__(self, _context: StageContext) -> None: ...

    async def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        return [call.input for call in calls]


class Forward:
    """Sends each payload on, joined like `Join`, by `process`."""

    def __init__(self, context: StageContext) -> None:
        self.name = context.name

    async def process(self, job: Job) -> None:
        inputs = await job.payloads()
        await job.send("+".join(text(value) for value in inputs.values()) + f">{self.name}")


class Count:
    """Emits `count` chunks: numbers, or arrays of `samples` float32 of that value."""

    def __init__(self, context: StageContext) -> None:
        self.made = 0
        self.pause_s = context.server_args.get("pause_s", 0.0)
        self.to = context.server_args.get("to")

    async def process(self, job: Job) -> None:
        payload = await job.payload()
        for index in range(payload["count"]):
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
            await job.emit(chunk(index, payload.get("samples", 0)), self.to)
            self.made += 1
        if payload.get("made"):
            await job.send(self.made)


class Relay:
    """Passes every chunk on."""

    def __init__(self, context: StageContext) -> None:
        self.pause_s = context.server_args.get("pause_s", 0.0)

    async def process(self, job: Job) -> None:
        async for item in job.stream():
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
            await job.emit(item)


def text(value: Any) -> str:
    return value["text"] if isinstance(value, dict) else str(value)


def chunk(index: int, samples: int) -> Any:
    return np.full(samples, index, np.float32) if samples else index


def fail_typed(_calls: Sequence[Call]) -> Sequence[Any]:
    raise InvalidRequestError("This voice is unknown.", field="voice")
