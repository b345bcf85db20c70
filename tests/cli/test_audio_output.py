"""An audio file appears whole or not at all."""

import os
import stat
import threading
import wave

import numpy as np
import pytest

from omni_host.audio import decode
from omni_host.cli.audio_output import audio_output, output_format
from omni_host.errors import UsageError

TONE = np.array([0.0, 0.5, -0.5, 1.0], np.float32)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_all_samples_and_a_header_that_says_so(tmp_path):
    path = tmp_path / "out.wav"
    with audio_output(str(path), 8000) as wav:
        wav.write(TONE)
        wav.write(TONE)
        assert not path.exists()
    with wave.open(str(path)) as read:
        assert read.getparams()[:4] == (1, 2, 8000, 8)
        assert read.readframes(8) == np.rint(np.tile(TONE, 2) * 32767).astype("<i2").tobytes()
    assert wav.seconds == 8 / 8000
    assert names(tmp_path) == ["out.wav"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.wav"
    path.write_bytes(b"before")

    def interrupted():
        with audio_output(str(path), 8000) as wav:
            wav.write(TONE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["out.wav"]


def test_permissions_are_those_of_any_new_file_or_of_the_one_before(tmp_path):
    old = tmp_path / "old.wav"
    old.touch(mode=0o600)
    mask = os.umask(0o027)
    try:
        for name in ("old.wav", "new.wav"):
            with audio_output(str(tmp_path / name), 8000) as wav:
                wav.write(TONE)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new.wav").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.wav", tmp_path / "link.wav"
    real.touch()
    link.symlink_to(real)
    with audio_output(str(link), 8000) as wav:
        wav.write(TONE)
    assert link.is_symlink()
    assert real.stat().st_size == 44 + 8


def test_a_fifo_gets_a_stream(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    with audio_output(str(fifo), 8000) as wav:
        wav.write(TONE)
    reader.join(30)
    assert len(read[0]) == 44 + 8
    assert read[0][40:44] == b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("target", "sentence"), [(".", "is a folder"), ("no/where/out.wav", "There is no folder")]
)
def test_a_bad_place_is_a_usage_error(tmp_path, target, sentence):
    with pytest.raises(UsageError, match=sentence), audio_output(str(tmp_path / target), 8000):
        pass


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.mp3", (b"\xff\xf3",)),
        ("a.OGG", (b"OggS",)),
        ("a.opus", (b"OggS",)),
        ("a.flac", (b"fLaC",)),
        ("a.aac", (b"\xff\xf1",)),
    ],
)
def test_the_ending_decides_the_format(tmp_path, name, start):
    path = tmp_path / name
    tone = np.sin(np.arange(8000, dtype=np.float32) / 4)
    with audio_output(str(path), 8000) as audio:
        audio.write(tone[:4000])
        audio.write(tone[4000:])
    assert audio.seconds == 1.0
    assert path.read_bytes().startswith(start)
    assert len(decode(path.read_bytes(), 8000)) == pytest.approx(8000, rel=0.2)


def test_raw_samples_have_no_header(tmp_path):
    with audio_output(str(tmp_path / "a.pcm"), 8000) as audio:
        audio.write(TONE)
    assert (tmp_path / "a.pcm").stat().st_size == 8


@pytest.mark.parametrize("name", ["a.mp4", "a", "wav"])
def test_an_ending_that_names_no_format_is_refused_with_those_that_do(name):
    with pytest.raises(UsageError, match=r"known are \.aac, \.flac, \.mp3, \.ogg, \.opus, \.pcm"):
        output_format(name)
