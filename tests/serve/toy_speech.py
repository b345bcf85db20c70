"""A model of two processes that says each word as a tone of 0.1 s."""

from __future__ import annotations

import asyncio

import numpy as np

from omni_host.errors import InvalidRequestError
from omni_host.stage import Job, StageContext

RATE = 24_000


def tone(word: str) -> np.ndarray:
    """Float32 samples [2400]; the pitch follows the length of the word."""
    return np.sin(np.arange(2400) * (2 * np.pi * 110 * len(word) / RATE)).astype(np.float32)


class Words:
    def __init__(self, context: StageContext) -> None: ...

    async def process(self, job: Job) -> None:
        for word in (await job.payload())["text"].split():
            if word == "refused":
                raise InvalidRequestError("The word is not said.", field="input")
            await job.emit(word)


class Tones:
    def __init__(self, context: StageContext) -> None: ...

    async def process(self, job: Job) -> None:
        async for word in job.stream():
            if word == "broken":
                raise RuntimeError("the voice broke")
            if word == "forever":
                await asyncio.Event().wait()
            await job.emit(tone(word))
