"""What a client is told when a stage fails."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from omni_host.errors import InvalidRequestError, StageFailedError, WireError
from omni_host.graph import Edge, Output, Task
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, holding, pid_of, run, running, until

HOWS = ("typed", "untyped", "compute", "value", "nothing", "twice", "returned", "emitted")


def deployment(*, fused: bool):
    """A stage for each way to fail, each beside a long stream and before a sink."""
    return deploy(
        (
            *(stage(how, "Fail", server_args={"how": how}, process="fail") for how in HOWS),
            stage("count", "Count", server_args={"delay_s": 0.01}),
            stage("sink", "Tell"),
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
        "untyped": (StageFailedError, "Stage 'untyped' failed: KeyError: 'lost' (toy", "untyped"),
        "compute": (StageFailedError, "Stage 'compute' failed: ValueError: invalid lit", "compute"),
        "value": (WireError, "Stage 'value' cannot send this to 'client': payload is of", "value"),
        "nothing": (StageFailedError, "it ended without a payload for sink", "nothing"),
        "twice": (StageFailedError, "a second payload for 'sink'", "twice"),
        "returned": (
            StageFailedError,
            "process returned str, which goes nowhere; await job.emit(...) or job.send(...)",
            "returned",
        ),
        "emitted": (
            StageFailedError,
            "emit() leads nowhere, as no stream edge leaves 'emitted' and it is no task's output",
            "emitted",
        ),
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


@pytest.mark.parametrize(
    ("how", "kind", "sentence"),
    [
        ("surrogate", StageFailedError, "half a letter: \\ud800"),
        ("speechless", StageFailedError, "SpeechlessError: an error that cannot be shown"),
        ("untold", InvalidRequestError, "<object object"),
        (
            "uncarried",
            StageFailedError,
            "Stage 'a' failed, and its UncarriedError cannot be carried",
        ),
    ],
)
def test_an_error_that_cannot_be_sent_as_it_is_ends_the_request_all_the_same(how, kind, sentence):
    async def main():
        async with running(alone("OddError")) as pipeline:
            for _ in range(2):
                with pytest.raises(kind) as caught:
                    await answer(pipeline, payload={"text": how})
                assert sentence in caught.value.message
            assert await answer(pipeline, payload={"text": "well"}) == ["well"]

    run(main())


def alone(toy: str):
    return deploy(
        (stage("a", toy, max_concurrent=1),),
        (),
        (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="data"),)),),
    )


@pytest.mark.parametrize(
    ("toy", "how"),
    [
        ("Exit", "process"),
        ("Exit", "compute"),
        ("Exit", "batch"),
        ("ExitBatch", "batch"),
        ("AsyncExitBatch", "batch"),
    ],
)
def test_a_stage_that_exits_fails_its_request_and_nothing_else(toy, how, caplog):
    async def main():
        async with running(alone(toy)) as pipeline:
            pid = pid_of(pipeline, "a")
            with pytest.raises(StageFailedError, match=r"Stage 'a' failed: SystemExit: .?3"):
                await answer(pipeline, payload={"text": how})
            assert len(await answer(pipeline, payload={"text": "well"})) == 1
            assert pid_of(pipeline, "a") == pid

    run(main())
    assert "Traceback" not in caplog.text


def test_the_place_is_told_and_the_traceback_is_logged_for_who_asks(caplog):
    async def main():
        with caplog.at_level(logging.INFO):
            async with running(deployment(fused=False)) as pipeline:
                for how in ("untyped", "compute"):
                    with pytest.raises(StageFailedError) as caught:
                        await answer(pipeline, how, payload={"count": 10})
                    assert re.search(r" \(toy_stages\.py:\d+ in process\)$", caught.value.message)
                    assert caught.value.hint == "-v shows the traceback"
        assert "KeyError: 'lost'" in caplog.text
        assert "Traceback" in caplog.text

    run(main())


def test_a_value_that_cannot_be_carried_is_told_with_what_can_be():
    async def main():
        async with running(deployment(fused=False)) as pipeline:
            with pytest.raises(WireError) as caught:
                await answer(pipeline, "value", payload={"count": 1})
            assert "dict with str keys, numpy and torch tensors" in caught.value.hint

    run(main())


def test_a_payload_without_an_edge_is_the_stages_error():
    async def main():
        async with running(alone("SendNowhere")) as pipeline:
            with pytest.raises(StageFailedError, match="no payload edge leaves 'a': emit"):
                await answer(pipeline)

    run(main())
