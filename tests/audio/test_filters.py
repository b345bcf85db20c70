"""Another tempo at the same pitch, another rate: piece by piece as at once."""

import numpy as np
import pytest

from omni_host.audio import Resampler, Tempo
from tests.audio.recordings import RATE, chunks, pitch, signal_to_noise, tone, voice

SPEEDS = (0.25, 0.3, 0.5, 0.75, 0.99, 1.01, 1.5, 2.0, 2.5, 4.0)
RATES = [(24_000, 16_000), (24_000, 48_000), (44_100, 16_000), (22_050, 24_000), (8_000, 16_000)]


def filtered(chain, samples, size=1920):
    return np.concatenate(
        [*(chain.write(chunk) for chunk in chunks(samples, size)), chain.finish()]
    )


@pytest.mark.parametrize("count", [0, 1, 100, 1920, 50_000])
@pytest.mark.parametrize("speed", SPEEDS)
def test_a_tempo_makes_it_that_much_longer(speed, count):
    slowed = filtered(Tempo(RATE, speed), voice(seconds=count / RATE))

    assert len(slowed) == pytest.approx(count / speed, abs=RATE * 0.01)
    assert slowed.dtype == np.float32


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_tempo_keeps_the_pitch(speed):
    heard = filtered(Tempo(RATE, speed), tone(440, seconds=3))

    assert pitch(heard) == pytest.approx(440, abs=2)
    assert np.sqrt(np.mean(heard**2)) == pytest.approx(0.354, abs=0.04)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_tempo_does_not_depend_on_the_chunks(speed):
    samples = voice(seconds=0.7)
    at_once = filtered(Tempo(RATE, speed), samples, len(samples))

    for size in (160, 1920):
        assert np.array_equal(filtered(Tempo(RATE, speed), samples, size), at_once)


@pytest.mark.parametrize("speed", [0.25, 0.75, 1.5, 4.0])
def test_a_tempo_loses_no_end(speed):
    samples = np.concatenate((np.zeros(RATE, np.float32), tone(440, seconds=0.2)))
    end = filtered(Tempo(RATE, speed), samples)[-int(0.15 * RATE / speed) :]

    assert np.sqrt(np.mean(end**2)) > 0.25


@pytest.mark.parametrize("speed", [speed for speed in SPEEDS if speed <= 2])
def test_audio_comes_with_the_first_chunk_or_the_second(speed):
    tempo, samples = Tempo(RATE, speed), voice(seconds=0.16)

    assert any(len(tempo.write(chunk)) for chunk in chunks(samples, 1920))


def test_a_speed_of_one_hands_through_what_it_gets():
    tempo, samples = Tempo(RATE, 1.0), voice()

    assert tempo.write(samples) is samples
    assert len(tempo.finish()) == 0


def test_what_is_not_a_number_spoils_no_more_than_itself():
    samples = voice()
    samples[5000] = np.nan

    assert np.isfinite(filtered(Tempo(RATE, 1.25), samples)).all()


@pytest.mark.parametrize(("source", "target"), RATES)
def test_another_rate_is_the_same_sound(source, target):
    heard = filtered(Resampler(source, target), tone(1000, source))
    expected = tone(1000, target)

    assert abs(len(heard) - len(expected)) <= 1
    assert signal_to_noise(expected[400:-400], heard[400 : len(expected) - 400]) > 80


@pytest.mark.parametrize(("source", "target"), RATES)
def test_another_rate_does_not_depend_on_the_chunks(source, target):
    samples = voice(source, 0.5)
    at_once = filtered(Resampler(source, target), samples, len(samples))

    assert np.array_equal(filtered(Resampler(source, target), samples, 100), at_once)


def test_what_the_lower_rate_cannot_hold_is_gone():
    heard = filtered(Resampler(24_000, 16_000), tone(9_000))

    assert np.sqrt(np.mean(heard[400:-400] ** 2)) < 1e-4


def test_the_same_rate_hands_through_what_it_gets():
    resampler, samples = Resampler(RATE, RATE), voice()

    assert resampler.write(samples) is samples
    assert len(resampler.finish()) == 0


def test_filters_take_what_a_stride_skips():
    doubled = np.repeat(voice(), 2)

    assert np.array_equal(
        filtered(Resampler(RATE, 16_000), doubled[::2]), filtered(Resampler(RATE, 16_000), voice())
    )
