"""The three stages, one request and several."""

import asyncio

import numpy as np
import pytest
from omni_demo.acoustic import AcousticStage
from omni_demo.text import TextStage
from omni_demo.vocoder import VocoderStage

from omni_host.api import errors

STORY = "Good morning. It is 9:30am, on Jan. 5th!\n\nWhat happens next? Nobody knows…"


def sound_of(chunks):
    return np.concatenate(chunks)


@pytest.mark.parametrize(("speed", "seed"), [(1.0, 0), (0.5, 1), (2.0, 4_294_967_295)])
def test_the_samples_are_those_of_hibari_bit_for_bit(stages, hibari, speed, seed):
    chunks = stages.speak({"text": STORY, "speed": speed, "seed": seed})
    expected = list(hibari.stream(STORY, speed, seed))
    assert len(chunks) == len(expected) > 3
    assert all(
        np.array_equal(chunk, sentence) for chunk, sentence in zip(chunks, expected, strict=True)
    )


def test_the_samples_are_speech(stages):
    short = sound_of(stages.speak({"text": "Good morning."}))
    long = sound_of(stages.speak({"text": "Good morning to all of you out there in the rain."}))
    for samples in (short, long):
        assert samples.dtype == np.float32
        assert np.abs(samples).max() < 0.99
        assert 0.02 < np.sqrt(np.mean(samples**2)) < 0.2
    assert 0.5 < short.size / 24_000 < 2.5
    assert 1.5 * short.size < long.size < 4 * short.size


def test_speed_changes_durations_and_not_pitch(stages):
    def pitch(speed):
        f0 = stages.acoustic._model.frames(ids, speed)["f0"]
        return np.median(f0[f0 > 40])

    ids = stages.text._phonemizer.ids(stages.text._phonemizer.read("Good morning to you.")[0])
    slow, fast = (sound_of(stages.speak({"text": STORY, "speed": s})) for s in (0.5, 2.0))
    assert 3.0 < slow.size / fast.size < 5.0
    assert 0.8 < pitch(0.5) / pitch(2.0) < 1.25  # by resampling it would be 0.25


def test_another_seed_gives_other_samples_of_the_same_words(stages):
    one, other = (sound_of(stages.speak({"text": "Hello.", "seed": seed})) for seed in (1, 2))
    assert one.shape == other.shape
    assert not np.array_equal(one, other)


def test_each_sentence_leaves_before_the_next_is_read(stages, job):
    request = job({"text": "One. Two. Three."})
    asyncio.run(stages.text.process(request))
    read_and_sent = [("job", "read"), ("job", "emit")]
    assert request.log == [("job", "sentences"), *read_and_sent * 3]


def test_requests_alternate_sentence_by_sentence(stages, job):
    ids = stages.text._phonemizer.ids("həlO.")
    log, turn = [], asyncio.Lock()
    jobs = [job({"text": "x"}, [ids] * 3, log, turn, name) for name in ("a", "b")]

    async def both():
        await asyncio.gather(*(stages.acoustic.process(each) for each in jobs))

    asyncio.run(both())
    turns = [name for name, what in log if what == "frames"]
    assert turns == ["a", "b"] * 3


@pytest.mark.parametrize(
    "text", ["...", "😀 👍🏽", "— “?” —", "你好 世界", "\0\x01", "!\n?\n.", "_" * 50]
)
def test_a_text_with_nothing_to_speak_is_refused_before_any_sound(stages, job, text):
    request = job({"text": text})
    with pytest.raises(errors.InvalidRequestError, match="nothing that the demo voice") as caught:
        asyncio.run(stages.text.process(request))
    assert caught.value.field == "input"
    assert request.emitted == []


def test_silence_before_the_first_word_is_kept(stages, hibari):
    text = "...\n\nHello."
    samples = sound_of(stages.speak({"text": text, "seed": 3}))
    assert np.array_equal(samples, hibari(text, seed=3))


@pytest.mark.parametrize("stage", ["text", "acoustic", "vocoder"])
def test_every_stage_refuses_a_wrong_field(stages, job, stage):
    with pytest.raises(errors.InvalidRequestError) as caught:
        asyncio.run(getattr(stages, stage).process(job({"text": "Hi.", "speed": 3.0})))
    assert caught.value.field == "speed"


@pytest.mark.parametrize("stage", [TextStage, VocoderStage, AcousticStage])
def test_an_unknown_argument_stops_the_start(stage, context):
    with pytest.raises(errors.StageStartError, match="no argument 'colour'"):
        stage(context("its-name", colour=1))


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_threads_must_be_a_count(threads, context):
    with pytest.raises(errors.StageStartError, match="'threads'"):
        AcousticStage(context("acoustic", threads=threads))


def test_the_session_gets_the_threads_asked_for(context):
    stage = AcousticStage(context("acoustic", threads=2))
    options = stage._model._session.get_session_options()
    assert options.intra_op_num_threads == 2
