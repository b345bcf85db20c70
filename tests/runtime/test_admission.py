from __future__ import annotations

import asyncio
import contextlib

import pytest

from omni_host.errors import DrainingError, InvalidRequestError, QueueFullError
from omni_host.graph import Output, Task
from omni_host.runtime import Limits, Pipeline
from omni_host.runtime.admission import Admission
from omni_host.runtime.flight import Flight, FlightPlan
from omni_host.runtime.generation import Request
from tests.runtime.deployments import deploy, plugins, stage
from tests.runtime.running import answer, ask, request, run, running, until

NOWHERE = FlightPlan(places={}, processes={}, outputs={}, tags=())


def flight() -> Flight:
    return Flight(Request(id="x", task="t", payload={}), NOWHERE)


def toys(delay_s: float = 0.2):
    return deploy(
        (stage("a", "Join", server_args={"delay_s": delay_s}),),
        (),
        (Task(name="t", entry=("a",), outputs=(Output(stage="a", modality="text"),)),),
    )


def test_a_full_queue_refuses_at_once():
    async def main():
        async with running(toys(), Limits(max_running=2, max_queued=3)) as pipeline:
            generations = [pipeline.submit(request()) for _ in range(5)]
            with pytest.raises(QueueFullError, match="2 requests are running and 3") as caught:
                pipeline.submit(request())
            assert caught.value.retry_after >= 1
            for generation in generations:
                async with generation:
                    assert [chunk.data async for chunk in generation] == ["hi>a"]

    run(main())


def test_an_id_in_use_is_refused_and_free_again_afterwards():
    async def main():
        async with running(toys()) as pipeline:
            async with pipeline.submit(request(id="one")) as generation:
                with pytest.raises(InvalidRequestError, match="'one'") as caught:
                    pipeline.submit(request(id="one"))
                assert caught.value.field == "id"
                assert [chunk.data async for chunk in generation] == ["hi>a"]
            assert await answer(pipeline, id="one") == ["hi>a"]

    run(main())


def test_what_the_graph_does_not_offer_is_refused():
    async def main():
        async with running(toys()) as pipeline:
            with pytest.raises(InvalidRequestError, match="no task 'sing'"):
                pipeline.submit(request("sing"))
            with pytest.raises(InvalidRequestError, match="deadline"):
                pipeline.submit(request(deadline_s=0.0))

    run(main())


def test_nothing_is_taken_before_the_start_and_after_the_stop():
    async def main():
        pipeline = Pipeline(toys(), plugins())
        assert pipeline.snapshot().state == "starting"
        with pytest.raises(QueueFullError, match="not loaded yet"):
            pipeline.submit(request())
        await pipeline.start()
        await pipeline.stop(1.0)
        assert pipeline.snapshot().state == "draining"
        with pytest.raises(DrainingError, match="The server is stopping"):
            pipeline.submit(request())

    run(main())


def test_a_stop_drains():
    async def main():
        pipeline = Pipeline(toys(), plugins(), limits=Limits(max_running=1))
        await pipeline.start()
        asked = [asyncio.create_task(ask(pipeline)) for _ in range(3)]
        await asyncio.sleep(0)
        stopping = asyncio.create_task(pipeline.stop(30.0))
        await asyncio.sleep(0)
        with pytest.raises(DrainingError, match="The server is stopping"):
            pipeline.submit(request())
        found = await asyncio.gather(*asked)
        assert [chunks[0].data for chunks in found] == ["hi>a"] * 3
        await stopping

    run(main())


def test_what_does_not_end_within_the_drain_is_told_so():
    async def main():
        pipeline = Pipeline(toys(delay_s=1.0), plugins(), limits=Limits(max_running=1))
        await pipeline.start()
        asked = [asyncio.create_task(ask(pipeline)) for _ in range(2)]
        await until(lambda: pipeline.snapshot().running == 1)
        await pipeline.stop(0.05)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(outcome, DrainingError)

    run(main())


def test_the_observer_hears_of_every_stage_and_request():
    class Observer:
        def __init__(self):
            self.stages, self.requests = [], []

        def stage_report(self, report):
            self.stages.append(report)

        def request_finished(self, report):
            self.requests.append(report)

    async def main():
        observer = Observer()
        async with running(toys(), observer=observer) as pipeline:
            await answer(pipeline, id="good")
            with contextlib.suppress(Exception):
                await answer(pipeline, id="late", deadline_s=0.01)
            async with pipeline.submit(request(id="gone")):
                pass
            await until(lambda: pipeline.snapshot().running == 0)
        (report,) = observer.stages
        assert report.stage == "a"
        assert report.batch_size == 1
        assert 0.2 <= report.busy_s < 60
        assert [(r.id, r.outcome, r.error) for r in observer.requests] == [
            ("good", "finished", None),
            ("late", "failed", "OMNI-R006"),
            ("gone", "cancelled", "OMNI-R007"),
        ]
        assert observer.requests[0].total_s >= report.busy_s

    run(main())


def test_the_advice_to_retry_follows_how_long_requests_take():
    admission = Admission(Limits(max_running=2, max_queued=2))
    for _ in range(2):
        admission.enter(flight())
        admission.next(lambda _: True)
    for _ in range(2):
        admission.leave(10.0)
        admission.enter(flight())
        admission.next(lambda _: True)
    admission.enter(flight())
    admission.enter(flight())
    with pytest.raises(QueueFullError) as caught:
        admission.enter(flight())
    assert caught.value.retry_after == 15


def test_a_request_that_can_start_passes_one_that_cannot():
    admission = Admission(Limits(max_running=2))
    blocked, free = flight(), flight()
    admission.enter(blocked)
    admission.enter(free)
    assert admission.next(lambda candidate: candidate is free) is free
    assert admission.next(lambda candidate: candidate is free) is None
    assert admission.waiting() == (blocked,)
