from __future__ import annotations

import asyncio

import pytest

from omni_host.errors import StageFailedError
from omni_host.graph import Batching, Output, Task
from omni_host.runtime import Limits
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, holding, run, running, until


def batched(toy: str, **batching):
    return deploy(
        (stage("a", toy, batching=Batching(**batching)),),
        (),
        (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="size"),)),),
    )


@pytest.mark.parametrize("toy", ["Sizes", "StepSizes"])
def test_a_full_batch_leaves_at_once(toy):
    async def main():
        async with running(batched(toy, max_size=4, max_wait_s=50)) as pipeline:
            found = await asyncio.gather(*(answer(pipeline) for _ in range(8)))
            assert found == [[4]] * 8

    run(main())


@pytest.mark.parametrize("toy", ["Sizes", "StepSizes"])
def test_what_is_there_leaves_when_the_wait_has_elapsed(toy):
    async def main():
        async with running(batched(toy, max_size=100, max_wait_s=0.2)) as pipeline:
            found = await asyncio.gather(*(answer(pipeline) for _ in range(3)))
            assert found == [[3]] * 3

    run(main())


def test_calls_that_come_while_a_batch_runs_make_the_next_one():
    async def main():
        deployment = deploy(
            (
                stage(
                    "a",
                    "Sizes",
                    batching=Batching(max_size=50, max_wait_s=0),
                    server_args={"delay_s": 0.3},
                ),
            ),
            (),
            (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="size"),)),),
        )
        async with running(deployment) as pipeline:
            first = asyncio.create_task(answer(pipeline))
            await asyncio.sleep(0.1)
            rest = await asyncio.gather(*(answer(pipeline) for _ in range(20)))
            assert await first == [1]
            assert rest == [[20]] * 20

    run(main())


def test_a_call_may_fail_alone_of_its_batch():
    async def main():
        async with running(batched("FailSome", max_size=3, max_wait_s=50)) as pipeline:
            found = await asyncio.gather(
                *(answer(pipeline, payload={"text": text}) for text in ("good", "bad", "good")),
                return_exceptions=True,
            )
            assert found[0] == found[2] == [3]
            assert found[1].code == "OMNI-R002"
            assert found[1].field == "input"

    run(main())


RETURNED = {
    "none": "NoneType",
    "int": "int",
    "generator": "generator",
    "string": "str",
    "mapping": "dict",
    "coroutine": "coroutine",
    "too few": "0 results",
    "too many": "3 results",
}


@pytest.mark.parametrize(
    ("toy", "function"),
    [("BadBatch", "run_batch"), ("AsyncBadBatch", "run_batch"), ("BadStep", "step")],
)
def test_a_batch_that_gives_no_results_fails_each_of_its_requests_by_name(toy, function):
    def deployment():
        batching = Batching(max_size=2, max_wait_s=50)
        names = list(RETURNED)
        return deploy(
            tuple(
                stage(
                    f"s{index}",
                    toy,
                    batching=batching,
                    max_concurrent=2,
                    server_args={"returns": name},
                )
                for index, name in enumerate(names)
            ),
            (),
            tuple(
                Task(
                    name=name,
                    entry=(f"s{index}",),
                    outputs=(Output(stage=f"s{index}", modality="x"),),
                )
                for index, name in enumerate(names)
            ),
            fused=True,
        )

    async def main():
        async with running(deployment()) as pipeline:
            for index, (name, returned) in enumerate(RETURNED.items()):
                # More than are let inside at once: a place that leaks would be missed.
                found = await asyncio.gather(
                    *(answer(pipeline, name) for _ in range(4)), return_exceptions=True
                )
                for error in found:
                    assert isinstance(error, StageFailedError)
                    assert error.message == (
                        f"Stage 's{index}' failed: {function} returned {returned}, "
                        "expected a sequence of 2 results"
                    )
                    assert error.field == f"s{index}"
            await until(lambda: pipeline.snapshot().running == 0)
            assert holding(pipeline) == {}

    run(main())


def test_no_more_requests_are_inside_than_the_stage_takes():
    async def main():
        deployment = deploy(
            (
                stage(
                    "a",
                    "StepSizes",
                    batching=Batching(max_size=8, max_wait_s=0.1),
                    max_concurrent=3,
                ),
            ),
            (),
            (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="size"),)),),
        )
        async with running(deployment, Limits(max_running=32)) as pipeline:
            found = await asyncio.gather(*(answer(pipeline) for _ in range(9)))
            assert {size for (size,) in found} == {3}

    run(main())
