"""Any recording becomes mono samples, or an error that names the field."""

import gc
import io
import os
import struct
import threading

import numpy as np
import psutil
import pytest

from omni_host.audio import AudioLimits, decode, decode_chunks, pcm16, wav_header
from omni_host.errors import InvalidRequestError
from tests.audio.recordings import film, pitch, recording, signal_to_noise, tone, voice

TARGET = 16_000
CONTAINERS = [
    ("wav", "pcm_s16le"),
    ("wav", "pcm_u8"),
    ("wav", "pcm_s24le"),
    ("wav", "pcm_f64le"),
    ("wav", "pcm_mulaw"),
    ("aiff", "pcm_s16be"),
    ("au", "pcm_s16be"),
    ("caf", "pcm_s16le"),
    ("w64", "pcm_s16le"),
    ("flac", "flac"),
    ("tta", "tta"),
    ("wv", "wavpack"),
    ("mp3", "libmp3lame"),
    ("ogg", "libopus"),
    ("ogg", "flac"),
    ("adts", "aac"),
    ("ipod", "aac"),
    ("mp4", "alac"),
    ("mov", "pcm_s16le"),
    ("webm", "libopus"),
    ("matroska", "aac"),
    ("asf", "libmp3lame"),
    ("avi", "libmp3lame"),
    ("mpegts", "aac"),
    ("ac3", "ac3"),
]


def wav(count: int = 2400, rate: int = 24_000) -> bytes:
    data = pcm16(voice(rate, count / rate))
    return wav_header(rate, len(data)) + data


@pytest.mark.parametrize(("container", "codec"), CONTAINERS)
def test_every_usual_container_is_heard(container, codec):
    rate = 48_000
    heard = decode(recording(tone(440, rate), container=container, codec=codec, rate=rate), TARGET)

    assert (heard.dtype, heard.ndim) == (np.float32, 1)
    assert len(heard) == pytest.approx(TARGET, abs=0.07 * TARGET)
    assert pitch(heard, TARGET) == pytest.approx(440, abs=1)
    assert np.sqrt(np.mean(heard[4000:12_000] ** 2)) == pytest.approx(0.354, abs=0.03)


@pytest.mark.parametrize("rate", [1_000, 8_000, 11_025, 16_000, 44_100, 96_000, 384_000])
def test_every_usual_rate_is_heard(rate):
    file = recording(tone(100, rate), container="wav", codec="pcm_f32le", rate=rate)
    heard = decode(file, TARGET)

    assert abs(len(heard) - TARGET) <= 1
    assert signal_to_noise(tone(100, TARGET)[1000:-1000], heard[1000:-1000]) > 40


@pytest.mark.parametrize(
    ("layout", "channels", "container", "codec"),
    [
        ("stereo", 2, "wav", "pcm_s16le"),
        ("2.1", 3, "flac", "flac"),
        ("5.1", 6, "ipod", "aac"),
        ("7.1", 8, "ipod", "aac"),
        ("7.1", 8, "wav", "pcm_s32le"),
        ("hexadecagonal", 16, "wav", "pcm_u8"),
        ("12 channels", 12, "wav", "pcm_s16le"),
    ],
)
def test_channels_are_averaged(layout, channels, container, codec):
    silent = np.zeros((channels - 1, 24_000), np.float32)
    spoken = np.concatenate((tone(440)[None], silent))
    file = recording(spoken, container=container, codec=codec, layout=layout)
    heard = decode(file, 24_000)[:24_000]

    assert np.sqrt(np.mean(heard[8000:16_000] ** 2)) == pytest.approx(0.354 / channels, rel=0.1)


def test_the_same_rate_is_the_same_samples():
    heard = decode(wav(24_000), 24_000)

    assert np.array_equal(
        np.rint(heard * 32768).astype("<i2"), np.frombuffer(wav(24_000)[44:], "<i2")
    )


def test_a_stream_that_says_no_length_is_no_cut_one():
    streamed = wav_header(24_000, None) + wav()[44:]

    assert len(decode(streamed, 24_000)) == 2400


def test_the_rate_may_change_on_the_way():
    parts = [
        recording(tone(440, rate), container="adts", codec="aac", rate=rate)
        for rate in (24_000, 48_000)
    ]
    heard = decode(b"".join(parts), TARGET)

    assert len(heard) == pytest.approx(2 * TARGET, abs=0.2 * TARGET)
    assert pitch(heard[:TARGET], TARGET) == pytest.approx(440, abs=2)
    assert pitch(heard[TARGET:], TARGET) == pytest.approx(440, abs=2)


def test_tags_in_any_encoding_are_skipped():
    tag = b"TIT2\x00\x00\x00\x05\x00\x00\x03\xff\xfe\xe9\xe9"
    head = b"ID3\x04\x00\x00\x00\x00\x00" + bytes([len(tag)]) + tag
    file = recording(tone(440), container="mp3", codec="libmp3lame", id3v2_version="0")

    assert len(decode(head + file, TARGET)) == len(decode(file, TARGET))


def test_a_film_is_listened_to():
    file = recording(tone(440), container="matroska", codec="libopus", rate=24_000)

    assert pitch(decode(file, TARGET), TARGET) == pytest.approx(440, abs=1)


def test_samples_that_are_no_numbers_are_silence():
    samples = voice()
    samples[100:200] = np.nan
    samples[300] = np.inf
    file = recording(samples, container="wav", codec="pcm_f32le")

    assert np.isfinite(decode(file, 24_000)).all()


# What a client may send by mistake, or on purpose.

FLAC = recording(voice(seconds=2), container="flac", codec="flac")
MP4 = recording(voice(seconds=2), container="mp4", codec="aac", rate=24_000)
STREAM = recording(voice(seconds=2), container="adts", codec="aac", rate=24_000)
MKV = recording(voice(seconds=2), container="matroska", codec="flac")

BAD = {
    "empty": (b"", "is empty"),
    "one byte": (b"R", "cannot be read"),
    "text": (b"This is no audio at all. " * 50, "cannot be read"),
    "json": (b'{"audio": "none"}', "cannot be read"),
    "zeros": (bytes(100_000), "."),
    "noise": (np.random.default_rng(3).bytes(50_000), "."),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(1000), "cannot be read"),
    "an archive": (b"PK\x03\x04" + bytes(1000), "cannot be read"),
    "a film without sound": (film(), "has no audio track"),
    "a wav without samples": (wav_header(24_000, 0), "is zero seconds long"),
    "half a wav header": (wav()[:20], "cannot be read"),
    "a wav header and less than it says": (wav()[:2000], "is cut off"),
    "a wav header alone": (wav()[:44], "."),
    "half a flac": (FLAC[: len(FLAC) // 2], "cut off"),
    "a flac header": (FLAC[:42], "."),
    "half an mp4": (MP4[: len(MP4) // 2], "cut off"),
    "half a packet": (STREAM[: len(STREAM) // 2], "cut off"),
    "half a matroska": (MKV[: len(MKV) // 2], "cut off"),
    "no rate": (wav_header(0, 4800) + bytes(4800), "."),
    "a rate of 2 GHz": (wav_header(2_000_000_000, 4800) + bytes(4800), "at 2000000000 Hz"),
    "a rate of 10 Hz": (wav_header(10, 4800) + bytes(4800), "at 10 Hz"),
    "a playlist": (b"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:1,\n/etc/passwd\n", "cannot be read"),
    "a list of files": (b"ffconcat version 1.0\nfile /etc/passwd\n", "cannot be read"),
    "a session description": (b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n", "cannot"),
    "a manifest": (b'<?xml version="1.0"?><MPD profiles="dash:profile">', "cannot be read"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_heard_is_an_error_of_its_field(what):
    data, reason = BAD[what]
    with pytest.raises(InvalidRequestError) as refused:
        decode(data, TARGET, field="reference")

    assert refused.value.field == "reference"
    assert refused.value.message.startswith("The audio ")
    assert reason in refused.value.message


@pytest.mark.parametrize(("container", "codec"), CONTAINERS)
def test_damage_of_every_kind_is_either_heard_or_refused(container, codec):
    file = recording(voice(48_000, 0.2), container=container, codec=codec, rate=48_000)
    random = np.random.default_rng(len(container) * 7 + len(codec))

    for _ in range(25):
        damaged = np.frombuffer(file, np.uint8).copy()
        where = random.integers(min(len(file), random.choice([200, len(file)])), size=8)
        damaged[where] = random.integers(256, size=8)
        cut = random.integers(len(file) // 2, len(file))
        try:
            heard = decode(damaged[:cut].tobytes(), TARGET)
        except InvalidRequestError:
            continue
        assert np.isfinite(heard).all()
        assert len(heard)


def test_no_other_file_is_opened(tmp_path):
    (tmp_path / "secret.wav").write_bytes(wav())
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{tmp_path}/secret.wav\n"
    listing = f"ffconcat version 1.0\nfile {tmp_path}/secret.wav\n"

    for text in (playlist, listing):
        with pytest.raises(InvalidRequestError):
            decode(text.encode(), TARGET)


# Limits


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (AudioLimits(max_bytes=10_000), "is over 10000 bytes"),
        (AudioLimits(max_seconds=0.9), "is over 0.9 seconds"),
        (AudioLimits(max_samples=20_000), "is over 20000 samples"),
    ],
)
def test_more_than_is_allowed_is_refused(limits, reason):
    with pytest.raises(InvalidRequestError, match=reason) as refused:
        decode(wav(24_000), TARGET, limits=limits)

    assert refused.value.hint


def test_just_what_is_allowed_is_heard():
    limits = AudioLimits(max_bytes=48_044, max_seconds=1, max_samples=60_000)

    assert len(decode(wav(24_000), 24_000, limits=limits)) == 24_000


def test_an_hour_of_silence_in_few_bytes_is_refused_before_it_is_held():
    packed = recording(
        np.zeros(8_000 * 3600, np.float32), container="flac", codec="flac", rate=8_000
    )
    assert len(packed) < 800_000

    with pytest.raises(InvalidRequestError, match="is over 60 seconds"):
        for _ in decode_chunks(io.BytesIO(packed), TARGET, limits=AudioLimits(max_seconds=60)):
            pass


def test_packets_of_one_sample_are_dear():
    described = b"lpcm\0\0\0\0" + struct.pack(">5I", 2, 257, 1, 16, 0)[:16]
    file = recording(voice(seconds=2), container="caf", codec="pcm_s16le")
    start = file.index(b"lpcm")
    packets_of_two_bytes = file[:start] + described + file[start + 24 :]

    with pytest.raises(InvalidRequestError, match="is over 1000000 samples"):
        decode(packets_of_two_bytes, TARGET, limits=AudioLimits(max_samples=1_000_000))


# Streams


@pytest.mark.parametrize(("container", "codec"), [("wav", "pcm_s16le"), ("ogg", "libopus")])
def test_a_stream_is_heard_while_it_is_still_written(container, codec):
    whole = recording(voice(seconds=4), container=container, codec=codec)
    reader, writer = os.pipe()
    heard_some = threading.Event()

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as pipe:
            pipe.write(whole[: len(whole) // 2])
            # If nothing was heard by then, the rest never comes.
            if heard_some.wait(60):
                pipe.write(whole[len(whole) // 2 :])

    writing = threading.Thread(target=write)
    writing.start()
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        parts = []
        for part in decode_chunks(pipe, TARGET):
            parts.append(part)
            heard_some.set()
    writing.join()

    assert np.array_equal(np.concatenate(parts), decode(whole, TARGET))
    assert len(parts) > 10


def test_a_stream_has_a_limit_too():
    class Endless(io.RawIOBase):
        sent = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            part = (wav_header(24_000, None) if not self.sent else b"") + bytes(len(buffer))
            buffer[:] = part[: len(buffer)]
            self.sent += len(buffer)
            return len(buffer)

    source = Endless()
    with pytest.raises(InvalidRequestError, match="is over 1000000 bytes"):
        for _ in decode_chunks(source, TARGET, limits=AudioLimits(max_bytes=1_000_000)):
            pass
    assert source.sent < 1_200_000


def test_a_thousand_recordings_leave_memory_and_descriptors_as_they_were():
    process = psutil.Process()
    good = [wav(), MP4, recording(voice(), container="ogg", codec="libopus")]
    bad = [FLAC[:2000], b"nothing", film(seconds=1)]

    def listen(count: int) -> None:
        for number in range(count):
            decode(good[number % 3], TARGET)
            next(decode_chunks(io.BytesIO(good[number % 3]), TARGET))
            with pytest.raises(InvalidRequestError):
                decode(bad[number % 3], TARGET)
        gc.collect()

    listen(50)
    gc.collect()
    before, descriptors = process.memory_info().rss, process.num_fds()
    listen(350)

    assert process.num_fds() == descriptors
    assert process.memory_info().rss - before < 16 * 2**20
