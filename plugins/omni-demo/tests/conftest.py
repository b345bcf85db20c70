"""Stages without a runtime: a context and a job for each, and hibari itself to compare with."""

import asyncio
import logging
from dataclasses import dataclass, field

import pytest
from hibari import Hibari
from omni_demo import plugin
from omni_demo.acoustic import AcousticStage
from omni_demo.text import TextStage
from omni_demo.vocoder import VocoderStage

from omni_host.api import ModelRef, PlatformProbe, RequestInfo, StageContext

INFO = RequestInfo(id="r", task="speech", tags=frozenset())


@dataclass
class FakeJob:
    """One request in one stage; `log` notes in order what was computed and emitted."""

    given: object
    chunks: list = field(default_factory=list)
    log: list = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    name: str = "job"
    emitted: list = field(default_factory=list)
    request: RequestInfo = INFO
    cancelled: bool = False

    async def payload(self, source=None):
        return self.given

    async def stream(self, source=None):
        for chunk in self.chunks:
            yield chunk

    async def emit(self, chunk, to=None):
        self.log.append((self.name, "emit"))
        self.emitted.append(chunk)

    async def compute(self, fn, /, *args, **kwargs):
        async with self.turn:  # first come, first served, as in a compute thread
            self.log.append((self.name, fn.__name__))
            await asyncio.sleep(0)
            return fn(*args, **kwargs)


def make_context(name, **server_args):
    return StageContext(
        name=name,
        device="cpu",
        server_args=server_args,
        model=ModelRef(reference="demo", path=plugin.MODEL_FOLDER),
        platform=PlatformProbe(name="cpu", devices=("cpu",), priority=0),
        engine=None,
        report=lambda what, fraction=None: None,
        log=logging.getLogger(name),
    )


@dataclass
class Stages:
    text: TextStage
    acoustic: AcousticStage
    vocoder: VocoderStage

    def speak(self, payload):
        """The chunks of audio of one request, each stage after the other."""

        async def run():
            chunks = []
            for stage in (self.text, self.acoustic, self.vocoder):
                job = FakeJob(payload, chunks)
                await stage.process(job)
                chunks = job.emitted
            return chunks

        return asyncio.run(run())


@pytest.fixture
def job():
    return FakeJob


@pytest.fixture
def context():
    return make_context


@pytest.fixture(scope="session")
def stages():
    return Stages(
        TextStage(make_context("text")),
        AcousticStage(make_context("acoustic")),
        VocoderStage(make_context("vocoder")),
    )


@pytest.fixture(scope="session")
def hibari():
    return Hibari()
