"""`omni speak`: a text into a WAV file, whole or not at all."""

import io
import os
import signal
import time
import wave

import pytest


def seconds(data):
    with wave.open(io.BytesIO(data)) as read:
        assert read.getparams()[:3] == (1, 2, 8000)
        return read.getnframes() / 8000


def files(shell):
    return sorted(path.name for path in shell.folder.iterdir())


def wait_for(process, sign):
    """Read what the process tells until it tells this."""
    lines = iter(process.stderr.readline, b"")
    assert any(sign in line for line in lines), f"it ended without {sign!r}"


def speak(shell, *arguments, **rest):
    return shell.run("speak", "--model", "toy", *arguments, **rest)


def test_it_writes_the_file_and_says_where_how_long_and_how_fast(toy):
    done = speak(toy, "one two three")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("out.wav: 0.30 s of audio, first audio after ")
    assert "real-time factor" in done.stderr
    assert done.stderr.count("\n") == 1
    assert seconds((toy.folder / "out.wav").read_bytes()) == pytest.approx(0.3)
    assert files(toy) == ["out.wav"]


def test_text_may_come_from_standard_input(toy):
    for arguments in ([], ["-"]):
        assert speak(toy, *arguments, "-o", "in.wav", stdin=b"one two").returncode == 0
        assert seconds((toy.folder / "in.wav").read_bytes()) == pytest.approx(0.2)


def test_audio_may_go_to_standard_output(toy):
    done = speak(toy, "one", "-o", "-")
    audio = done.stdout.encode(errors="surrogateescape")
    assert audio[:4] == b"RIFF"
    assert len(audio) == 44 + 1600
    assert done.stderr.startswith("standard output: 0.10 s of audio")
    assert files(toy) == []


def test_a_format_that_is_not_known_is_refused_before_anything_starts(toy):
    done = speak(toy, "one", "-o", "out.mp4")
    assert done.returncode == 2
    assert "known are .aac, .flac, .mp3, .ogg, .opus, .pcm, .wav." in done.stderr
    assert files(toy) == []


def test_a_terminal_is_not_sent_audio(toy):
    leader, terminal = os.openpty()
    process = toy.start("speak", "--model", "toy", "one", "-o", "-", stdout=terminal)
    os.close(terminal)
    _, errors = process.communicate()
    os.close(leader)
    assert process.returncode == 2
    assert b"A terminal cannot play a WAV file" in errors


def test_progress_is_drawn_on_a_terminal_and_taken_away(toy):
    leader, terminal = os.openpty()
    process = toy.start("speak", "--model", "toy", "one", stderr=terminal)
    os.close(terminal)
    drawn = b""
    while True:
        try:
            drawn += os.read(leader, 4096)
        except OSError:
            break
    os.close(leader)
    assert process.wait() == 0
    assert b"loading" in drawn
    assert b"words ready" in drawn
    assert drawn.endswith(b"\r\n")
    assert b"\x1b[Kout.wav: 0.10 s" in drawn


def test_another_speed_is_another_length(toy):
    for speed, length in (("0.5", 0.6), ("2", 0.15)):
        assert speak(toy, "one two three", "--speed", speed).returncode == 0
        heard = seconds((toy.folder / "out.wav").read_bytes())
        assert heard == pytest.approx(length, abs=0.01)


def test_fields_of_the_model_reach_it(toy):
    assert (
        speak(toy, "one", "--field", "pitch=880", "--voice", "sine", "-o", "a.wav").returncode == 0
    )
    assert speak(toy, "one", "-o", "b.wav").returncode == 0
    assert (toy.folder / "a.wav").read_bytes() != (toy.folder / "b.wav").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["one", "--voice", "square"], "There is no voice"),
        (["one", "--speed", "5"], "'speed'"),
        (["one", "--seed", "1"], "seed"),
        (["one", "--field", "picth=1"], "pitch"),
        (["one", "--field", "pitch=high"], "pitch"),
        (["one", "--field", "pitch"], "--field pitch has no value"),
        ([" "], "no text to speak"),
        (["one " * 30], "100"),
        (["hush"], "makes no audio"),
        (["one", "-o", "no/where.wav"], "There is no folder"),
    ],
)
def test_what_the_model_cannot_do_is_a_usage_error(toy, arguments, sentence):
    done = speak(toy, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert files(toy) == []


def test_standard_input_must_be_text(toy):
    done = speak(toy, stdin=b"\xff\xfe")
    assert done.returncode == 2
    assert "Standard input is no UTF-8 text" in done.stderr


def test_a_stage_that_emits_nothing_is_named(toy):
    done = speak(toy, "mute")
    assert done.returncode == 5
    assert "ended without emitting audio" in done.stderr
    assert "await job.emit(...)" in done.stderr
    assert files(toy) == []


def test_a_stage_that_fails_has_its_exit_code_and_leaves_nothing(toy):
    (toy.folder / "out.wav").write_bytes(b"before")
    done = speak(toy, "one fail")
    assert done.returncode == 5
    assert "no tone for this word" in done.stderr
    assert "Traceback" not in done.stderr
    assert files(toy) == ["out.wav"]
    assert (toy.folder / "out.wav").read_bytes() == b"before"


def test_a_stage_that_does_not_start_is_named(toy):
    (toy.site / "toy_stages.py").write_text("raise RuntimeError('no such chip')")
    done = speak(toy, "one")
    assert done.returncode == 5
    assert "no such chip" in done.stderr
    assert files(toy) == []


@pytest.mark.parametrize(
    ("when", "number", "code"),
    [
        ("loading", signal.SIGINT, 130),
        ("loading", signal.SIGTERM, 143),
        ("speaking", signal.SIGINT, 130),
        ("speaking", signal.SIGHUP, 129),
    ],
)
def test_a_signal_ends_it_and_leaves_nothing(toy, when, number, code):
    slow = {"loading": "words.server_args.load_s=600", "speaking": "tones.server_args.chunk_s=600"}
    process = toy.start("speak", "--model", "toy", "one", "-v", "--set", f"stages.{slow[when]}")
    wanted = {"loading": b"words: reading", "speaking": b"tones: ready"}[when]
    wait_for(process, wanted)
    if when == "speaking":
        time.sleep(0.5)
    assert files(toy) != []
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert b"Traceback" not in errors
    assert files(toy) == []


def test_a_player_that_goes_away_ends_it(toy):
    process = toy.start(
        "speak",
        "--model",
        "toy",
        "one " * 20,
        "-o",
        "-",
        "--set",
        "stages.tones.server_args.chunk_s=0.2",
    )
    process.stdout.read(44)
    process.stdout.close()
    _, errors = process.communicate()
    assert process.returncode == 1
    assert b"Traceback" not in errors
    assert b"Exception ignored" not in errors
