"""Every format, whole and streamed: valid, of the right length, and there at once."""

import gc
import shutil
import subprocess

import numpy as np
import psutil
import pytest

from omni_host.audio import FORMATS, decode, pcm16
from omni_host.errors import InvalidRequestError
from tests.audio.recordings import RATE, chunks, signal_to_noise, voice

CHUNK_S = 0.08
COMPRESSED = ("mp3", "opus", "aac", "flac")
DELAY = {("mp3", "streamed"): 1105, ("aac", "streamed"): 512, ("aac", "whole"): 512}
"""Samples at 24 kHz before the audio, which the format cannot tell of."""
FRAME = {"mp3": 576, "aac": 512}
RATES = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000)

each_format = pytest.mark.parametrize("name", FORMATS)
each_way = pytest.mark.parametrize("way", ["whole", "streamed"])
each_file = pytest.mark.parametrize("name", [name for name in FORMATS if name != "pcm"])


def pieces(name: str, way: str, samples: np.ndarray, rate: int = RATE) -> list[bytes]:
    """What every write hands out, and at last what finishing does."""
    encoder = FORMATS[name].encoder(rate, whole=way == "whole")
    out = [encoder.write(chunk) for chunk in chunks(samples, int(rate * CHUNK_S))]
    out.append(encoder.finish())
    assert encoder.size == sum(map(len, out)) - 44 * (name == "wav")
    return out


def encoded(name: str, way: str, samples: np.ndarray, rate: int = RATE) -> bytes:
    return b"".join(pieces(name, way, samples, rate))


def test_mp3_is_the_first_since_it_is_the_default_of_the_api():
    assert list(FORMATS) == ["mp3", "opus", "aac", "flac", "wav", "pcm"]


def test_media_types_are_those_that_browsers_play():
    assert {name: known.media_type(RATE) for name, known in FORMATS.items()} == {
        "mp3": "audio/mpeg",
        "opus": "audio/ogg",
        "aac": "audio/aac",
        "flac": "audio/flac",
        "wav": "audio/wav",
        "pcm": "audio/pcm;rate=24000;channels=1",
    }


@each_way
@each_file
@pytest.mark.parametrize("rate", RATES)
def test_it_lasts_as_long_as_what_was_written(name, way, rate):
    samples = voice(rate, 1.2345)
    heard = decode(encoded(name, way, samples, rate), rate)

    excess = len(heard) - len(samples)
    if (name, way) not in DELAY:
        assert abs(excess) <= 1
    else:
        # The delay and what fills the last frame, at the rate that the format has.
        slowest = min(rate, RATE) if name == "mp3" else RATE
        assert 0 < excess / rate < (DELAY[name, way] + 3 * FRAME[name]) / slowest


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("name", ["flac", "wav"])
def test_lossless_formats_hold_what_pcm_holds(name, way):
    samples = voice()
    heard = decode(encoded(name, way, samples), RATE)

    assert (np.rint(heard * 32768).astype("<i2")).tobytes() == pcm16(samples)


@each_way
@pytest.mark.parametrize(("name", "decibels"), [("mp3", 22), ("opus", 22), ("aac", 22)])
def test_lossy_formats_stay_close(name, way, decibels):
    samples = voice(seconds=2)
    heard = decode(encoded(name, way, samples), RATE)

    assert signal_to_noise(samples, heard[DELAY.get((name, way), 0) :]) > decibels


@pytest.mark.parametrize("name", ["opus", "aac", "pcm"])
def test_what_has_no_length_in_front_is_the_same_whole_and_streamed(name):
    whole, streamed = (encoded(name, way, voice()) for way in ("whole", "streamed"))

    if name == "opus":  # each Ogg stream has a random number, and sums over it
        whole, streamed = decode(whole, RATE).tobytes(), decode(streamed, RATE).tobytes()
    assert whole == streamed


def test_whole_and_streamed_mp3_have_the_same_audio():
    whole, streamed = (decode(encoded("mp3", way, voice()), RATE) for way in ("whole", "streamed"))

    assert np.array_equal(whole, streamed[1105:][: len(whole)])


@pytest.mark.parametrize("rate", RATES)
@each_format
def test_bytes_leave_with_the_first_chunk(name, rate):
    first = pieces(name, "streamed", voice(rate, 0.5), rate)[0]

    assert len(first) > 0


@each_format
def test_a_stream_holds_back_less_than_a_tenth_of_a_second(name):
    samples = voice(seconds=2)
    out = pieces(name, "streamed", samples)
    at_most = 3 * len(encoded(name, "streamed", samples[: len(samples) // 4])) / 0.5 * CHUNK_S

    assert all(out[:-1])
    assert max(map(len, out[1:])) < at_most


@each_format
def test_a_whole_file_comes_at_the_end(name):
    *early, last = pieces(name, "whole", voice())

    assert not any(early)
    assert last


def test_opus_has_a_page_for_every_packet():
    stream = encoded("opus", "streamed", voice(seconds=1))

    # Two for the headers, fifty for a second of 20 ms packets, one for the delay.
    assert 50 <= stream.count(b"OggS") - 2 <= 52


@each_way
@each_file
def test_silence_and_noise_beyond_the_scale_can_be_encoded(name, way):
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -7, 0.5] * 2000, dtype=np.float32)
    heard = decode(encoded(name, way, np.concatenate((wild, np.zeros_like(wild)))), RATE)

    assert np.isfinite(heard).all()
    assert len(heard) >= 24_000


@each_way
@each_format
def test_nothing_to_encode_is_a_file_without_audio(name, way):
    empty = encoded(name, way, np.empty(0, np.float32))

    if name in ("wav", "flac"):
        with pytest.raises(InvalidRequestError, match="zero seconds long"):
            decode(empty, RATE)
    elif name in ("pcm", "aac"):
        assert empty == b""


@each_format
def test_empty_chunks_change_nothing(name):
    encoder = FORMATS[name].encoder(RATE, whole=True)
    for chunk in (voice()[:0], voice(), voice()[:0]):
        encoder.write(chunk)

    assert len(encoder.finish()) == len(encoded(name, "whole", voice()))


@pytest.mark.skipif(not shutil.which("ffprobe"), reason="ffmpeg is not installed")
@each_way
@each_file
def test_ffprobe_and_ffmpeg_find_no_fault(name, way, tmp_path):
    file = tmp_path / "speech"
    file.write_bytes(encoded(name, way, voice(seconds=2)))

    for command in (
        ["ffprobe", "-v", "error", "-show_streams", "-count_packets", file],
        ["ffmpeg", "-v", "error", "-i", file, "-f", "null", "-"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_two_thousand_streams_leave_memory_and_descriptors_as_they_were():
    process, samples = psutil.Process(), voice(seconds=CHUNK_S)

    def some_streams(count: int) -> None:
        for number in range(count):
            name = COMPRESSED[number % 4]
            encoder = FORMATS[name].encoder(RATE, whole=number % 8 >= 4)
            encoder.write(samples)
            if number % 3:  # the others are left as a client leaves that goes away
                encoder.finish()
        gc.collect()

    some_streams(200)
    gc.collect()
    before, descriptors = process.memory_info().rss, process.num_fds()
    some_streams(2000)

    assert process.num_fds() == descriptors
    assert process.memory_info().rss - before < 16 * 2**20
