from __future__ import annotations

import asyncio

import pytest

from omni_host.graph import Batching, Output, Task
from omni_host.runtime import Limits
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, run, running


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


def test_a_batch_that_gives_too_few_results_fails_by_name():
    async def main():
        async with running(batched("Short")) as pipeline:
            with pytest.raises(Exception, match="Stage 'a' failed: ValueError: 1 calls gave 0 res"):
                await answer(pipeline)

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
