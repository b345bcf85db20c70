"""What a client is told when a stage fails."""

from __future__ import annotations

import asyncio

import pytest

from omni_host.errors import InvalidRequestError, StageFailedError, WireError
from omni_host.graph import Edge, Output, Task
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, holding, run, running, until

HOWS = ("typed", "untyped", "compute", "value", "nothing", "twice")


def deployment(*, fused: bool):
    """A stage for each way to fail, each beside a long stream and before a sink."""
    return deploy(
        (
            *(stage(how, "Fail", server_args={"how": how}, process="fail") for how in HOWS),
            stage("count", "Count", server_args={"delay_s": 0.01}),
            stage("sink", "Forward"),
        ),
        tuple(Edge(source=how, target="sink") for how in HOWS),
        (
            *(
                Task(
                    name=how,
                    entry=(how, "count"),
                    outputs=(
                        Output(stage="sink", modality="text"),
                        Output(stage="count", modality="number"),
                        *((Output(stage=how, modality="data"),) if how == "value" else ()),
                    ),
                )
                for how in HOWS
            ),
            Task(
                name="well", entry=("count",), outputs=(Output(stage="count", modality="number"),)
            ),
        ),
        fused=fused,
    )


@pytest.mark.parametrize("fused", [False, True], ids=["processes", "fused"])
def test_an_error_reaches_the_client_typed_and_ends_the_request_everywhere(fused):
    expected = {
        "typed": (InvalidRequestError, "This voice is unknown.", "voice"),
        "untyped": (StageFailedError, "Stage 'untyped' failed: KeyError: 'lost'", "untyped"),
        "compute": (StageFailedError, "Stage 'compute' failed: ValueError: invalid lit", "compute"),
        "value": (WireError, "object", None),
        "nothing": (StageFailedError, "it ended without a payload for sink", "nothing"),
        "twice": (StageFailedError, "a second payload for 'sink'", "twice"),
    }

    async def main():
        async with running(deployment(fused=fused)) as pipeline:
            for how, (kind, sentence, field) in expected.items():
                with pytest.raises(kind) as caught:
                    await answer(pipeline, how, payload={"count": 10_000})
                assert sentence in caught.value.message
                assert caught.value.field == field
                assert "Traceback" not in str(caught.value)
                await until(lambda: pipeline.snapshot().running == 0)
                assert holding(pipeline) == {}
            assert await answer(pipeline, "well", payload={"count": 3}) == [0, 1, 2]

    run(main())


def test_a_failure_leaves_other_requests_alone():
    async def main():
        async with running(deployment(fused=False)) as pipeline:
            well = asyncio.create_task(answer(pipeline, "well", payload={"count": 50}))
            for _ in range(5):
                with pytest.raises(InvalidRequestError):
                    await answer(pipeline, "typed", payload={"count": 10_000})
            assert await well == list(range(50))

    run(main())


def test_a_payload_that_cannot_be_carried_is_the_clients_error():
    async def main():
        async with running(deployment(fused=True)) as pipeline:
            with pytest.raises(WireError, match="set"):
                await answer(pipeline, "well", payload={"count": {1, 2}})
            assert await answer(pipeline, "well", payload={"count": 1}) == [0]

    run(main())
