"""Stages each of which breaks one rule."""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from uuid import uuid4

import numpy as np
from toy_stages import Tones, Words, checked

from omni_host.errors import InvalidRequestError, StageStartError

CHILD_S = 30.0


class Loud(Tones):
    """Samples beyond -1..1."""

    def tone(self, word, index, asked):
        return super().tone(word, index, asked) * np.float32(10)


class Wide(Tones):
    """Samples in float64."""

    def tone(self, word, index, asked):
        return super().tone(word, index, asked).astype(np.float64)


class Undefined(Tones):
    """A sample that is not a number."""

    def tone(self, word, index, asked):
        tone = super().tone(word, index, asked)
        tone[0] = np.nan
        return tone


class Silent(Tones):
    """No sound."""

    def tone(self, word, index, asked):
        return super().tone(word, index, asked) * np.float32(0)


class Drawn(Tones):
    """Audio of another rate than declared."""

    def tone(self, word, index, asked):
        return np.repeat(super().tone(word, index, asked), 8)


class Hasty(Tones):
    """Leaves a chunk out when the client was slow to read the last one."""

    async def process(self, job):
        asked = await job.payload("words")
        late = False
        for index, word in enumerate(asked["words"]):
            started = time.monotonic()
            if not late:
                await job.emit(self.tone(word, index, asked))
            late = time.monotonic() - started > 0.1


class Shared(Tones):
    """Is quieter while several speak."""

    inside = 0

    async def process(self, job):
        self.inside += 1
        try:
            await asyncio.sleep(0.1)
            await super().process(job)
        finally:
            self.inside -= 1

    def tone(self, word, index, asked):
        return super().tone(word, index, asked) / np.float32(self.inside)


class Mute(Words):
    """Turns down the tones of its own process."""

    def __init__(self, context):
        super().__init__(context)
        Turned.level = 0.5


class Turned(Tones):
    """Takes its level from what the whole process shares."""

    level = 1.0

    def tone(self, word, index, asked):
        return super().tone(word, index, asked) * np.float32(Turned.level)


class Trusting(Words):
    """Believes what it is given."""

    def read(self, asked):
        return checked({**asked, "text": asked["text"].strip() or "hm"})


class Vague(Words):
    """Does not say what is wrong."""

    def read(self, asked):
        answer = super().read(asked)
        return InvalidRequestError("No.") if isinstance(answer, InvalidRequestError) else answer


class Obliging(Words):
    """Takes its first voice where there is no such voice."""

    def read(self, asked):
        voice = asked["voice"] if asked["voice"] in ("low", "high") else "low"
        return super().read({**asked, "voice": voice})


class Fragile(Words):
    """Ends its process over a number for a text."""

    def read(self, asked):
        return os._exit(3) if asked["text"] == 5 else super().read(asked)


class Deaf(Tones):
    """Goes on when it is cancelled."""

    async def process(self, job):
        try:
            await super().process(job)
        except asyncio.CancelledError:
            await asyncio.sleep(1000)


class Offended(Tones):
    """Is quieter once it was cancelled."""

    level = 1.0

    async def process(self, job):
        try:
            await super().process(job)
        except asyncio.CancelledError:
            self.level = 0.5
            raise

    def tone(self, word, index, asked):
        return super().tone(word, index, asked) * np.float32(self.level)


class Opener(Tones):
    """Opens a file for each request and does not close it."""

    async def process(self, job):
        os.open(os.devnull, os.O_RDONLY)
        await super().process(job)


class Threads(Tones):
    """Starts a thread for each request that never ends."""

    async def process(self, job):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        await super().process(job)


class Children(Tones):
    """Starts a process for each request and leaves it."""

    def __init__(self, context):
        super().__init__(context)
        self.children = []

    async def process(self, job):
        self.children.append(child())
        await super().process(job)


class Segments(Tones):
    """Makes shared memory for each request and leaves it."""

    async def process(self, job):
        SharedMemory(f"toy-{uuid4().hex}", create=True, size=64).close()
        await super().process(job)


class Parent(Tones):
    """Starts a process that outlives it."""

    def __init__(self, context):
        super().__init__(context)
        self.child = child(start_new_session=True)


class Mapper(Tones):
    """Leaves the shared memory that it works with."""

    def __init__(self, context):
        super().__init__(context)
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="toy-", delete=False) as file:
            file.truncate(4096)
            self.memory = mmap.mmap(file.fileno(), 4096)


class Locked(Tones):
    """Leaves a lock behind when it is killed, and respects it."""

    def __init__(self, context):
        super().__init__(context)
        self.lock = Path(tempfile.gettempdir()) / "toy.lock"
        if self.lock.exists():
            raise StageStartError("It runs already.")
        self.lock.touch()

    def close(self):
        self.lock.unlink()


def child(**options):
    sleep = f"import time; time.sleep({CHILD_S})"
    return subprocess.Popen([sys.executable, "-S", "-c", sleep], **options)
