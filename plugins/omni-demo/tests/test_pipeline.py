"""The demo voice through the host: planned, in processes of its own, several at once."""

import asyncio
import itertools

import numpy as np
import pytest

from omni_host.api import errors
from omni_host.config.settings import validate
from omni_host.config.sources import assignment, merge
from omni_host.planning import plan
from omni_host.plugins import Plugins, discover
from omni_host.runtime import Limits, Pipeline, Request

STORY = "Good morning. It is 9:30am! What happens next? Nobody knows…"
TALE = "Once more unto the breach, dear friends. " * 2400
PATIENCE_S = 60.0

numbers = itertools.count()


def with_pipeline(use, *changes):
    """Start a pipeline, let `use(pipeline)` have it, stop it."""

    async def run():
        plugins = Plugins.load(discover(), allow=("builtin", "demo"))
        settings = validate(merge(assignment(change) for change in changes))
        pipeline = Pipeline(plan("demo", settings, plugins), plugins, limits=Limits())
        await pipeline.start()
        try:
            return await asyncio.wait_for(use(pipeline), PATIENCE_S)
        finally:
            await pipeline.stop(0.0)

    return asyncio.run(run())


def ask(pipeline, **payload):
    return pipeline.submit(
        Request(
            id=f"r{next(numbers)}",
            task="speech",
            payload=payload,
            inputs=frozenset({"text"}),
            outputs=frozenset({"audio"}),
        )
    )


async def speak(pipeline, **payload):
    async with ask(pipeline, **payload) as generation:
        return np.concatenate([np.array(chunk.data) async for chunk in generation])


async def refusal(pipeline, **payload):
    with pytest.raises(errors.InvalidRequestError) as caught:
        await speak(pipeline, **payload)
    return caught.value.field


def processes(pipeline):
    return {stage.stage: stage.pid for stage in pipeline.snapshot().stages}


@pytest.mark.parametrize("placement", ["separate", "fused"])
def test_requests_that_speak_at_once_each_sound_as_they_do_in_hibari(hibari, placement):
    async def use(pipeline):
        assert len(set(processes(pipeline).values())) == (1 if placement == "fused" else 3)
        return await asyncio.gather(
            *(speak(pipeline, text=STORY, seed=seed, speed=speed) for seed, speed in asked)
        )

    asked = [(0, 1.0), (0, 1.0), (7, 1.0), (7, 1.5)]
    spoken = with_pipeline(use, f"placement={placement}")
    for (seed, speed), samples in zip(asked, spoken, strict=True):
        assert np.array_equal(samples, hibari(STORY, seed=seed, speed=speed))


def test_odd_requests_leave_the_processes_running(hibari):
    async def use(pipeline):
        started = processes(pipeline)
        assert await refusal(pipeline, text="...") == "input"
        assert await refusal(pipeline, text="😀") == "input"
        assert await refusal(pipeline, text="Hi.", voice="emma") == "voice"
        assert await refusal(pipeline, text="Hi.", speed=2.5) == "speed"
        for text in ("a" * 10_000, "9" * 100, "⁴He\0", "https://example.com/" + "a/" * 50):
            assert (await speak(pipeline, text=text)).size
        assert processes(pipeline) == started
        return await speak(pipeline, text=STORY)

    assert np.array_equal(with_pipeline(use), hibari(STORY, seed=0))


def test_a_short_text_is_not_held_up_by_a_long_one(hibari):
    async def use(pipeline):
        async with ask(pipeline, text=TALE) as tale:
            told = 0

            async def tell():
                nonlocal told
                async for _chunk in tale:
                    told += 1

            telling = asyncio.create_task(tell())
            spoken = [await speak(pipeline, text=STORY) for _ in range(3)]
            assert not telling.done()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return spoken, told

    spoken, told = with_pipeline(use)
    assert told > 0
    assert all(np.array_equal(samples, hibari(STORY, seed=0)) for samples in spoken)


def test_a_client_that_stops_listening_stops_the_work():
    async def use(pipeline):
        async with ask(pipeline, text=TALE) as tale:
            first = await anext(tale)
            assert (first.modality, first.sample_rate) == ("audio", 24_000)
        while any(stage.inside for stage in pipeline.snapshot().stages):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    with_pipeline(use)


def test_a_bad_argument_stops_the_start():
    async def use(pipeline):
        pytest.fail("it started")

    with pytest.raises(errors.StageStartError, match="'threads'"):
        with_pipeline(use, "stages.acoustic.server_args.threads=0")
