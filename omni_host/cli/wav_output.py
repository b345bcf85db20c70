"""A WAV file that is written while its audio arrives, whole or not at all."""

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

from omni_host.audio import pcm16, wav_header
from omni_host.errors import UsageError

__all__ = ["WavWriter", "wav_output"]

STDOUT = "-"
BYTES_PER_SAMPLE = 2
LARGEST = 0xFFFFFFFF - 36
"""What the 32-bit sizes of a WAV file can tell."""


class WavWriter:
    """16-bit mono PCM. The header comes with the first samples, its sizes at the end."""

    def __init__(self, file: IO[bytes], sample_rate: int, name: str) -> None:
        self.name = name
        self._file = file
        self.sample_rate = sample_rate
        self._bytes = 0

    @property
    def seconds(self) -> float:
        """How much was written."""
        return self._bytes / BYTES_PER_SAMPLE / self.sample_rate

    def write(self, samples: NDArray[np.float32]) -> None:
        """Append float32 samples [n], -1..1, and let a reader have them at once."""
        if not len(samples):
            return
        if not self._bytes:
            self._file.write(wav_header(self.sample_rate, None))
        data = pcm16(samples)
        self._file.write(data)
        self._file.flush()
        self._bytes += len(data)

    def complete(self) -> None:
        """Put the sizes into the header of a file."""
        if self._bytes <= LARGEST:
            self._file.seek(0)
            self._file.write(wav_header(self.sample_rate, self._bytes))


@contextmanager
def wav_output(target: str, sample_rate: int) -> Generator[WavWriter]:
    """Write to the path `target`, or to standard output if it is `-`.

    A file appears under its name once the block has ended, and stays as it was if the
    block raises. What cannot be replaced, such as a FIFO, is written to as a stream.
    Raises UsageError if there is nowhere to write to.
    """
    if target == STDOUT:
        yield WavWriter(_stdout(), sample_rate, "standard output")
        return
    path = Path(target).resolve()
    _check(path)
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield WavWriter(stream, sample_rate, target)
        return
    with _replacement(path) as file:
        writer = WavWriter(file, sample_rate, target)
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
