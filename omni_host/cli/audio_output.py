"""An audio file that is written while its audio arrives, whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from omni_host.audio import FORMATS, AudioFormat, wav_header
from omni_host.errors import UsageError

__all__ = ["AudioWriter", "audio_output", "output_format"]

STDOUT = "-"
WAV = FORMATS["wav"]
ENDINGS = {"ogg": "opus", **{name: name for name in FORMATS}}
"""File endings and the names of their formats."""
BYTES_PER_SAMPLE = 2
LARGEST = 0xFFFFFFFF - 36
"""What the 32-bit sizes of a WAV file can tell."""


def output_format(target: str) -> AudioFormat:
    """The format that a file's ending names; WAV for standard output, pipes and devices.

    Raises UsageError for any other ending.
    """
    path = Path(target)
    special = path.exists() and not path.is_file()
    if target == STDOUT or (special and not path.suffix):
        return WAV
    ending = path.suffix.removeprefix(".").lower()
    if ending not in ENDINGS:
        known = ", ".join(f".{name}" for name in sorted(ENDINGS))
        raise UsageError(
            f"The ending of {target} names no format of audio; known are {known}.",
            hint=f"-o {path.with_suffix('.wav') if path.name else 'out.wav'}",
            field="-o",
        )
    return FORMATS[ENDINGS[ending]]


class AudioWriter:
    """Encodes mono audio into a file. What of it can be read at once is written at once.

    A WAV file's header comes with the first samples, its sizes at the end.
    """

    def __init__(
        self, file: IO[bytes], sample_rate: int, name: str, form: AudioFormat, *, whole: bool
    ) -> None:
        self.name = name
        self.sample_rate = sample_rate
        self._file = file
        self._patched = whole and form is WAV
        # Samples of hours as they are need not wait in memory for a WAV file's sizes.
        self._encoder = form.encoder(sample_rate, whole=whole and form.compressed)
        self._samples = 0

    @property
    def seconds(self) -> float:
        """How much was written."""
        return self._samples / self.sample_rate

    def write(self, samples: NDArray[np.float32]) -> None:
        """Append float32 samples [n], -1..1, and let a reader have them at once."""
        if not len(samples):
            return
        self._file.write(self._encoder.write(samples))
        self._file.flush()
        self._samples += len(samples)

    def complete(self) -> None:
        """Write what is held back, and a WAV file's sizes into its header."""
        if self._samples:
            self._file.write(self._encoder.finish())
        size = self._samples * BYTES_PER_SAMPLE
        if self._patched and size <= LARGEST:
            self._file.seek(0)
            self._file.write(wav_header(self.sample_rate, size))
        self._file.flush()


@contextmanager
def audio_output(target: str, sample_rate: int) -> Generator[AudioWriter]:
    """Write to the path `target`, in the format of its ending, or WAV to standard output if `-`.

    A file appears under its name once the block has ended, and stays as it was if the
    block raises. What cannot be replaced, such as a FIFO, is written to as a stream.
    Raises UsageError if there is nowhere to write to.
    """
    if target == STDOUT:
        writer = AudioWriter(_stdout(), sample_rate, "standard output", WAV, whole=False)
        yield writer
        writer.complete()
        return
    path = Path(target).resolve()
    _check(path)
    form = output_format(target)
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            writer = AudioWriter(stream, sample_rate, target, form, whole=False)
            yield writer
            writer.complete()
        return
    with _replacement(path) as file:
        writer = AudioWriter(file, sample_rate, target, form, whole=True)
        yield writer
        writer.complete()


def _stdout() -> IO[bytes]:
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - `>&-`
        raise UsageError("Standard output is closed.", hint="-o out.wav")
    if sys.stdout.isatty():
        raise UsageError(
            "A terminal cannot play a WAV file.", hint="-o out.wav, or -o - | aplay", field="-o"
        )
    return sys.stdout.buffer


def _check(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", hint=f"-o {path / 'out.wav'}", field="-o")
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder {path.parent}.", hint=f"mkdir -p {path.parent}", field="-o"
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"The folder {path.parent} cannot be written to.", field="-o")


@contextmanager
def _replacement(path: Path) -> Generator[IO[bytes]]:
    """A temporary file beside `path` that takes its place, or is removed on an error."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        temporary.chmod(_mode(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or those of any new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
