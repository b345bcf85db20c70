from __future__ import annotations

import asyncio
import dataclasses

import pytest

from omni_host.deployment import Sourced
from omni_host.errors import LockError, OmniError, PluginLoadError, StageStartError
from omni_host.graph import Edge, Output, Task
from omni_host.plugins import Lock
from omni_host.runtime import Health, Pipeline
from tests.runtime.deployments import LAUNCHER, TRANSPORTS, deploy, plugins, stage
from tests.runtime.running import answer, left_behind, run, running


def toys(toy: str, **options):
    """A stage that is fine, and one that is not."""
    return deploy(
        (stage("good", "Join"), stage("odd", toy)),
        (Edge(source="good", target="odd"),),
        (Task(name="t", entry=("good",), outputs=(Output(stage="odd", modality="text"),)),),
        **options,
    )


async def refused(deployment, **options) -> BaseException:
    before = left_behind()
    pipeline = Pipeline(deployment, plugins(), **options)
    with pytest.raises(OmniError) as caught:
        await pipeline.start()
    await pipeline.stop(0.0)
    assert left_behind() == before
    return caught.value


@pytest.mark.parametrize("fused", [False, True], ids=["processes", "fused"])
def test_a_stage_that_raises_is_named(fused):
    error = run(refused(toys("Refuse", fused=fused)))
    assert isinstance(error, StageStartError)
    assert error.field == "odd"
    assert "Stage 'odd' did not start: ValueError: no such weights" in error.message


def test_a_stage_that_exits_is_named_with_the_place(caplog):
    deployment = deploy(
        (stage("a", "Exit", server_args={"at_once": True}),),
        (),
        (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="text"),)),),
    )
    error = run(refused(deployment))
    assert isinstance(error, StageStartError)
    assert "Stage 'a' did not start: SystemExit: no licence (toy_stages.py:" in error.message
    assert error.message.endswith(" in __init__)")
    assert error.hint == "-v shows the traceback"
    assert "Traceback" not in caplog.text


def test_a_process_that_ends_while_it_loads_brings_its_last_output():
    error = run(refused(toys("Die")))
    assert isinstance(error, StageStartError)
    assert "ended with status 7" in error.message
    assert "about to go" in error.message


def test_a_target_that_does_not_exist_is_named():
    error = run(refused(toys("Nobody")))
    assert isinstance(error, StageStartError)
    assert "Nobody" in error.message


def test_a_stage_that_is_never_ready_is_given_up():
    reports = []

    async def main():
        pipeline = Pipeline(toys("Hang"), plugins(), health=Health(start_s=3.0, stop_s=0.2))
        with pytest.raises(StageStartError, match="'odd' was not ready after 3 s"):
            await pipeline.start(reports.append)

    run(main())
    assert ("odd", "hanging", 0.5, False) in {dataclasses.astuple(report) for report in reports}
    assert ("good", "ready", 1.0, True) in {dataclasses.astuple(report) for report in reports}


def test_a_start_that_is_cancelled_leaves_nothing():
    async def main():
        before = left_behind()
        for pause in (0.0, 0.01, 0.5):
            pipeline = Pipeline(toys("Hang"), plugins(), health=Health(stop_s=0.2))
            starting = asyncio.create_task(pipeline.start())
            await asyncio.sleep(pause)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert left_behind() == before

    run(main())


def test_a_stage_of_batches_takes_no_stream():
    deployment = deploy(
        (stage("a", "Count"), stage("b", "Join")),
        (Edge(source="a", target="b", kind="stream"),),
        (Task(name="t", entry=("a",), outputs=(Output(stage="b", modality="text"),)),),
    )
    error = run(refused(deployment))
    assert "Stage 'b' has run_batch, which takes no stream" in str(error)


def test_a_worker_refuses_other_plugins_than_locked():
    lock = plugins().lock()
    (builtin,) = lock.plugins
    other = Lock(python=lock.python, plugins=(dataclasses.replace(builtin, version="0.0.1"),))
    error = run(refused(toys("Join", lock=other)))
    assert isinstance(error, LockError)


def test_an_interpreter_that_is_not_there_is_named():
    deployment = toys("Join")
    process = dataclasses.replace(deployment.processes[0], python="/nowhere/python")
    deployment = dataclasses.replace(deployment, processes=(process, *deployment.processes[1:]))
    error = run(refused(deployment))
    assert isinstance(error, StageStartError)
    assert "'good' could not be started" in error.message


def test_an_argument_that_is_not_plain_data_is_named():
    deployment = toys("Join")
    odd = {"odd": Sourced(value={1, 2}, source="a plugin")}
    stages = tuple(dataclasses.replace(plan, server_args=odd) for plan in deployment.stages)
    error = run(refused(dataclasses.replace(deployment, stages=stages)))
    assert isinstance(error, StageStartError)
    assert "set is not plain data" in error.message


@pytest.mark.parametrize(
    ("what", "odd"),
    [
        ("launcher local", {"launcher": dataclasses.replace(LAUNCHER, target="nowhere:Launcher")}),
        (
            "transport shm",
            {"transports": (dataclasses.replace(TRANSPORTS[1], target="omni_host:Nothing"),)},
        ),
    ],
)
def test_what_a_plugin_offers_and_does_not_have_is_named(what, odd):
    error = run(refused(dataclasses.replace(toys("Join"), **odd)))
    assert isinstance(error, PluginLoadError)
    assert f"The {what} cannot be used" in error.message


def test_stages_are_closed_at_the_end(tmp_path):
    closed = tmp_path / "closed"

    async def main():
        deployment = deploy(
            (stage("a", "Closing", server_args={"closed": str(closed)}),),
            (),
            (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="data"),)),),
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline) == [{"text": "hi"}]
            assert not closed.exists()
        assert closed.exists()

    run(main())


def test_it_may_be_stopped_twice_and_at_once():
    async def main():
        before = left_behind()
        pipeline = Pipeline(toys("Join"), plugins())
        await pipeline.start()
        await asyncio.gather(pipeline.stop(1.0), pipeline.stop(1.0))
        await pipeline.stop(0.0)
        assert left_behind() == before

    run(main())
