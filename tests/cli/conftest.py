"""`omni` as a shell would run it, and a model without weights for it to serve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

OMNI = Path(sys.executable).with_name("omni")
TIMEOUT = 60

PLUGIN = """
from pathlib import Path

from omni_host.api import (
    Claim, Edge, Output, PluginInfo, RequestField, StageGraph, StageSpec, Task, hookimpl,
)

PLUGIN = PluginInfo(name="toy", summary="a tone for each word")


@hookimpl
def claim_model(model):
    return Claim(path=str(Path(__file__).parent / "toy_model"))


@hookimpl
def build_stages(model, options, platform):
    speech = Task(
        name="speech",
        entry=("words",),
        outputs=(Output(stage="tones", modality="audio", sample_rate=8000),),
        voices=("sine",),
        fields=(
            RequestField(name="pitch", type="number", description="in Hz", default=440.0),
            RequestField(name="style", type="string", description="free", default=""),
        ),
        max_characters=100,
    )
    return StageGraph(
        stages=(
            StageSpec(name="words", target="toy_stages:Words", server_args={"load_s": 0}),
            StageSpec(name="tones", target="toy_stages:Tones", server_args={"chunk_s": 0}),
        ),
        edges=(Edge(source="words", target="tones"),),
        tasks=(speech,),
    )
"""

STAGES = """
import asyncio
import time

import numpy as np


class Words:
    def __init__(self, context):
        context.report("reading the dictionary", 0.5)
        time.sleep(context.server_args["load_s"])

    def run_batch(self, calls):
        return [{**call.input, "words": call.input["text"].split()} for call in calls]


class Tones:
    def __init__(self, context):
        self.chunk_s = context.server_args["chunk_s"]

    async def process(self, job):
        request = await job.payload()
        for word in request["words"]:
            if word == "fail":
                raise RuntimeError("no tone for this word")
            if word == "mute":
                continue
            if word == "hush":
                await job.emit(np.zeros(0, np.float32))
                continue
            await asyncio.sleep(self.chunk_s)
            phase = np.arange(800) * (2 * np.pi * request["pitch"] / 8000)
            await job.emit(np.sin(phase).astype(np.float32))
"""

ENTRY_POINTS = """
[omni_host.plugins]
toy = toy_plugin

[omni_host.models]
toy = toy_plugin
ToyForSpeech = toy_plugin
"""


class Shell:
    """Runs `omni` in a folder of its own, with a site of fake distributions on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.site = folder / "site"
        self.folder.mkdir()
        self.site.mkdir()
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("OMNI_")}
        return {**own, "PYTHONPATH": str(self.site), "PYTHONUNBUFFERED": "1"}

    def distribution(self, name: str, entry_points: str, modules: Mapping[str, str]) -> None:
        """Install a distribution into the site."""
        metadata = self.site / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        for module, source in modules.items():
            (self.site / f"{module}.py").write_text(textwrap.dedent(source))

    def run(
        self, *arguments: str, stdin: bytes = b"", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; outputs are text, undecodable bytes kept as surrogates."""
        done = subprocess.run(
            [OMNI, *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode(errors="surrogateescape"),
            done.stderr.decode(errors="surrogateescape"),
        )

    def start(self, *arguments: str, **popen: object) -> subprocess.Popen[bytes]:
        """Start in a process group of its own; ended with the test."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [OMNI, *arguments],
            cwd=self.folder,
            env=self.environment,
            bufsize=0,
            start_new_session=True,
            **{**pipes, **popen},
        )
        self._running.append(process)
        return process

    def python(self, source: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program in the same place."""
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell without any plugin but those of this environment."""
    opened = Shell(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def toy(shell: Shell) -> Shell:
    """A shell where the model `toy` is installed."""
    shell.distribution("omni-toy", ENTRY_POINTS, {"toy_plugin": PLUGIN, "toy_stages": STAGES})
    model = shell.site / "toy_model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["ToyForSpeech"]}')
    return shell
