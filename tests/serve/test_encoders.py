import io
import wave

import numpy as np

from omni_host.serve.encoders import FORMATS, pcm16, wav_header
from tests.serve.fake_pipeline import RATE, samples


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
    encoder = FORMATS["wav"].encoder(RATE)
    audio = encoder.encode(samples(1000)) + encoder.finish()

    with wave.open(io.BytesIO(encoder.header(len(audio)) + audio)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert file.getnframes() == 1000
        assert file.readframes(1000) == audio


def test_a_streamed_wav_leaves_its_length_open():
    header = wav_header(RATE, None)

    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"


def test_pcm_has_no_header_and_names_its_rate():
    assert FORMATS["pcm"].encoder(RATE).header(None) == b""
    assert FORMATS["pcm"].media_type(RATE) == "audio/pcm;rate=24000;channels=1"
