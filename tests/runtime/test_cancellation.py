"""A request that nobody wants any more, at every point of its life."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from omni_host.errors import CancelledError, DeadlineError
from omni_host.graph import Batching, Edge, Output, Task
from omni_host.runtime import Limits, Pipeline
from omni_host.runtime import messages as m
from omni_host.runtime.mailbox import Mailbox
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, holding, request, run, running, until


def toys(*, fused: bool):
    slow = {"delay_s": 0.3}
    return deploy(
        (
            stage("quick", "Join"),
            stage("slow", "Join", server_args=slow, batching=Batching(max_size=4)),
            stage("flow", "Forward", server_args=slow),
            stage("count", "Count", server_args={"delay_s": 0.01}),
            stage("gathered", "StepSizes", batching=Batching(max_size=9, max_wait_s=50)),
            stage("end", "Tell"),
            stage("relay", "Relay"),
        ),
        (
            Edge(source="slow", target="end"),
            Edge(source="flow", target="end"),
            Edge(source="count", target="relay", kind="stream", credits=2),
        ),
        tuple(
            Task(
                name=name,
                entry=entry,
                outputs=tuple(Output(stage=output, modality="data") for output in outputs),
            )
            for name, entry, outputs in (
                ("quick", ("quick",), ("quick",)),
                ("batch", ("slow",), ("end",)),
                ("flow", ("flow",), ("end",)),
                ("stream", ("count",), ("relay",)),
                ("gather", ("gathered",), ("gathered",)),
                ("two", ("quick", "flow"), ("quick", "end")),
            )
        ),
        fused=fused,
    )


class Aborts:
    """Counts what the host posts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: Counter[tuple[str, int]] = Counter()
        post = Mailbox.post

        def counted(mailbox: Mailbox, peer: str, message: m.Message) -> None:
            if message[0] == m.ABORT:
                self.sent[peer, message[1]] += 1
            post(mailbox, peer, message)

        monkeypatch.setattr(Mailbox, "post", counted)


async def before_it_starts(pipeline: Pipeline, generation) -> None: ...


async def before_the_payload(pipeline: Pipeline, generation) -> None:
    await until(lambda: "end" in holding(pipeline))


async def during_compute(pipeline: Pipeline, generation) -> None:
    await asyncio.sleep(0.1)


async def while_a_batch_gathers(pipeline: Pipeline, generation) -> None:
    await asyncio.sleep(0.1)


async def mid_stream(pipeline: Pipeline, generation) -> None:
    for expected in range(5):
        assert (await anext(generation)).data == expected


async def waiting_for_credit(pipeline: Pipeline, generation) -> None:
    await asyncio.sleep(0.5)


async def between_terminals(pipeline: Pipeline, generation) -> None:
    assert (await anext(generation)).data == "hi>quick"


POINTS = [
    ("batch", before_it_starts),
    ("flow", before_it_starts),
    ("stream", before_it_starts),
    ("batch", before_the_payload),
    ("flow", before_the_payload),
    ("batch", during_compute),
    ("flow", during_compute),
    ("gather", while_a_batch_gathers),
    ("stream", mid_stream),
    ("stream", waiting_for_credit),
    ("two", between_terminals),
]


@pytest.fixture(scope="module", params=[False, True], ids=["processes", "fused"])
def shared(request):
    """One pipeline for all points: what one leaves behind, the next one meets."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        deployment = toys(fused=request.param)
        pipeline = runner.run(stack.enter_async_context(running(deployment, Limits(max_running=4))))
        yield runner, pipeline
        runner.run(stack.aclose())


@pytest.mark.parametrize(
    ("task", "point"), POINTS, ids=[f"{task}-{point.__name__}" for task, point in POINTS]
)
def test_leaving_early_frees_every_stage_once(shared, task, point, monkeypatch):
    runner, pipeline = shared
    aborts = Aborts(monkeypatch)

    async def main():
        async with pipeline.submit(request(task, payload=payload(task))) as generation:
            await point(pipeline, generation)
        with pytest.raises(CancelledError):
            await anext(generation)
        await until(lambda: pipeline.snapshot().running == 0)
        assert holding(pipeline) == {}
        assert aborts.sent
        assert set(aborts.sent.values()) == {1}
        assert await answer(pipeline, "quick") == ["hi>quick"]

    runner.run(asyncio.wait_for(main(), 60))


def payload(task: str):
    return {"count": 500} if task == "stream" else {"text": "hi"}


def test_a_queued_request_just_leaves_the_queue(shared, monkeypatch):
    runner, pipeline = shared
    aborts = Aborts(monkeypatch)

    async def main():
        before = [pipeline.submit(request("flow")) for _ in range(4)]
        async with pipeline.submit(request("flow")):
            assert pipeline.snapshot().queued == 1
        assert pipeline.snapshot().queued == 0
        assert not aborts.sent
        for generation in before:
            async with generation:
                assert [chunk.data async for chunk in generation] == ["hi>flow>end"]

    runner.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("task", ["batch", "flow", "stream", "gather", "two"])
def test_a_deadline_ends_a_request_in_every_stage(shared, task):
    runner, pipeline = shared

    async def main():
        with pytest.raises(DeadlineError, match="not served within"):
            await answer(pipeline, task, payload=payload(task), deadline_s=0.1)
        await until(lambda: pipeline.snapshot().running == 0)
        assert holding(pipeline) == {}

    runner.run(asyncio.wait_for(main(), 60))


def test_a_deadline_counts_the_queue_too(shared):
    runner, pipeline = shared

    async def main():
        before = [pipeline.submit(request("gather")) for _ in range(4)]
        with pytest.raises(DeadlineError):
            await answer(pipeline, "quick", deadline_s=0.1)
        for generation in before:
            generation.cancel()
        await until(lambda: pipeline.snapshot().running == 0)

    runner.run(asyncio.wait_for(main(), 60))


def test_work_in_a_compute_thread_is_let_finish_first():
    async def main():
        deployment = deploy(
            (stage("a", "Careful"),),
            (),
            (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="data"),)),),
        )
        async with running(deployment) as pipeline:
            async with pipeline.submit(request()):
                await asyncio.sleep(0.2)
            await until(lambda: pipeline.snapshot().running == 0)
            assert await answer(pipeline, payload={"text": "report"}) == ["freed after use"]

    run(main())
