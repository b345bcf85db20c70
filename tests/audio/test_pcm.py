"""Raw samples and WAV, which need no FFmpeg."""

import io
import wave

import numpy as np

from omni_host.audio import FORMATS, pcm16, wav_header
from tests.audio.recordings import RATE, voice


def test_samples_become_little_endian_16_bit_rounded_half_to_even():
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], dtype=np.float32) / 32767

    assert np.frombuffer(pcm16(halves), "<i2").tolist() == [0, 2, 2, 0, -2]


def test_what_lies_outside_is_clipped_and_nan_is_silence():
    wild = np.array([1.0, -1.0, 7.5, -7.5, np.inf, -np.inf, np.nan], dtype=np.float32)

    assert np.frombuffer(pcm16(wild), "<i2").tolist() == [
        32767,
        -32767,
        32767,
        -32767,
        32767,
        -32767,
        0,
    ]


def test_a_whole_wav_tells_its_true_length():
    encoder = FORMATS["wav"].encoder(RATE, whole=True)
    data = encoder.write(voice()) + encoder.finish()

    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert file.getnframes() == RATE
        assert file.readframes(RATE) == pcm16(voice())


def test_a_streamed_wav_leaves_its_length_open():
    encoder = FORMATS["wav"].encoder(RATE, whole=False)
    data = encoder.write(voice())

    assert data == wav_header(RATE, None) + pcm16(voice())
    assert data[4:8] == data[40:44] == b"\xff\xff\xff\xff"


def test_pcm_is_the_samples_alone():
    for whole in (True, False):
        encoder = FORMATS["pcm"].encoder(RATE, whole=whole)
        assert encoder.write(voice()) + encoder.finish() == pcm16(voice())
