"""Processes that end without being asked to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from omni_host.errors import StageDiedError
from omni_host.graph import Edge, Output, Task
from omni_host.runtime import Generation, Health, Limits
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import (
    answer,
    left_behind,
    pid_of,
    request,
    run,
    running,
    until,
)

ARRAYS = {"count": 400, "samples": 20_000}


def chain(**options):
    """A stream of arrays through three processes, and a stage apart from it."""
    return deploy(
        (
            stage("a", "Count", server_args={"delay_s": 0.005}),
            stage("b", "Relay"),
            stage("c", "Relay"),
            stage("apart", "Count", server_args={"delay_s": 0.01}),
            stage("frozen", "Freeze"),
        ),
        (
            Edge(source="a", target="b", kind="stream"),
            Edge(source="b", target="c", kind="stream"),
        ),
        tuple(
            Task(name=name, entry=(entry,), outputs=(Output(stage=output, modality="data"),))
            for name, entry, output in (
                ("t", "a", "c"),
                ("apart", "apart", "apart"),
                ("frozen", "frozen", "frozen"),
            )
        ),
        **options,
    )


async def ended(generation: Generation) -> None:
    # No name holds on to an array here, and so to the memory of a process that is gone.
    with pytest.raises(StageDiedError, match=r"killed by signal 9|ended before"):
        await exhaust(generation)


async def exhaust(generation: Generation) -> None:
    while True:
        await anext(generation)


def counts() -> tuple[int, int]:
    now = left_behind()
    return len(now["children"]), now["descriptors"]


def test_a_killed_process_fails_what_is_inside_and_comes_back():
    async def main():
        before = left_behind()
        async with running(chain()) as pipeline:
            await answer(pipeline, payload={"count": 9, "samples": 20_000})
            started = counts()
            for victim in ("a", "b", "c"):
                apart = asyncio.create_task(answer(pipeline, "apart", payload={"count": 20}))
                streams = [pipeline.submit(request(payload=ARRAYS)) for _ in range(4)]
                for generation in streams:
                    assert (await anext(generation)).data.shape == (20_000,)
                killed = pid_of(pipeline, victim)
                os.kill(killed, signal.SIGKILL)
                for generation in streams:
                    async with generation:
                        await ended(generation)
                assert await apart == list(range(20))
                # It waits in the queue until the process is back.
                assert len(await answer(pipeline, payload={"count": 9, "samples": 20_000})) == 9
                assert pid_of(pipeline, victim) != killed
                await until(lambda: pipeline.snapshot().running == 0)
                # Sockets are closed behind the scenes: the counts need not agree at once.
                await until(lambda: counts() == started)
        assert left_behind() == before

    run(main())


def test_a_process_without_a_sign_of_life_is_replaced():
    async def main():
        health = Health(ping_s=0.1, limit_s=1.0)
        async with running(chain(), health=health) as pipeline:
            with pytest.raises(StageDiedError):
                await answer(pipeline, "frozen", payload={"text": "freeze"})
            assert await answer(pipeline, "frozen") == ["alive"]

    run(main())


def test_a_stage_that_ends_its_process_again_and_again_stays_down():
    async def main():
        deployment = deploy(
            (stage("a", "Fail", server_args={"how": "exit"}), stage("b", "Join")),
            (),
            (
                Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="text"),)),
                Task(name="well", entry=("b",), outputs=(Output(stage="b", modality="text"),)),
            ),
        )
        health = Health(failures=3, backoff_s=0.01)
        async with running(deployment, Limits(max_running=1), health=health) as pipeline:
            for _ in range(3):
                with pytest.raises(StageDiedError, match="ended with status 3") as caught:
                    await answer(pipeline)
                assert caught.value.field == "a"
            await until(lambda: pipeline.snapshot().state == "failed")
            with pytest.raises(StageDiedError, match="ended too often"):
                pipeline.submit(request())
            assert await answer(pipeline, "well") == ["hi>b"]

    run(main())


def test_what_a_killed_process_has_started_ends_with_it():
    async def main():
        deployment = deploy(
            (stage("a", "Parent"),),
            (),
            (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="pid"),)),),
        )
        async with running(deployment) as pipeline:
            (child,) = await answer(pipeline)
            os.kill(pid_of(pipeline, "a"), signal.SIGKILL)
            await until(lambda: not psutil.pid_exists(child) or is_zombie(child))

    run(main())


def is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_signal_to_everybody_does_not_end_workers_before_the_host_says_so():
    async def main():
        async with running(chain()) as pipeline:
            pid = pid_of(pipeline, "frozen")
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(pid, number)
            assert await answer(pipeline, "frozen") == ["alive"]
            assert pid_of(pipeline, "frozen") == pid

    run(main())


def test_a_reader_whose_source_has_died_does_not_wait_for_it():
    # The reader's own process lives and its request was not inside the dead one as far as
    # the host can know, had the source just finished.
    async def main():
        async with running(chain()) as pipeline:
            async with pipeline.submit(request(payload=ARRAYS)) as generation:
                await anext(generation)
                os.kill(pid_of(pipeline, "a"), signal.SIGKILL)
                with pytest.raises(StageDiedError):
                    async for _ in generation:
                        pass
            await until(lambda: pipeline.snapshot().running == 0)

    run(main())


HOST = """
import asyncio, sys
from tests.runtime.running import request, running
from tests.runtime.test_deaths import ARRAYS, chain

async def main():
    async with running(chain()) as pipeline:
        generations = [pipeline.submit(request(payload=ARRAYS)) for _ in range(4)]
        for generation in generations:
            await anext(generation)
        print("streaming", *{stage.pid for stage in pipeline.snapshot().stages}, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_killed_host_leaves_no_worker_and_no_file(tmp_path):
    before = left_behind()
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "TMPDIR": str(tempfile.gettempdir())},
    ) as host:
        assert host.stdout is not None
        word, *pids = host.stdout.readline().split()
        assert word == "streaming"
        workers = [psutil.Process(int(pid)) for pid in pids]
        assert len(workers) == 5
        host.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    assert left_behind()["segments"] == before["segments"]
    assert left_behind()["folders"] == before["folders"]
