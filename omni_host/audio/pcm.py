"""Samples as they are: raw 16-bit PCM, and WAV around it."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

__all__ = ["PcmEncoder", "WavEncoder", "audible", "pcm16", "quantized", "wav_header"]

UNKNOWN_SIZE = 0xFFFFFFFF
"""The size that a WAV header carries while nobody knows it, as ffmpeg and sox write it."""


def audible(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Samples clipped to -1..1, and silence for NaN. float32 in and out, of one shape."""
    return np.where(np.isnan(samples), np.float32(0), samples).clip(-1.0, 1.0)


def quantized(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Audible samples as signed 16-bit: x * 32767, rounded half to even."""
    return np.rint(audible(samples) * 32767.0).astype("<i2")


def pcm16(samples: NDArray[np.float32]) -> bytes:
    """The same, as little-endian bytes."""
    return quantized(samples).tobytes()


def wav_header(sample_rate: int, size: int | None) -> bytes:
    """The 44 bytes before 16-bit mono PCM; `size` in bytes, None for a stream."""
    riff = UNKNOWN_SIZE if size is None else size + 36
    data = UNKNOWN_SIZE if size is None else size
    fmt = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16)
    return (
        struct.pack("<4sI4s4s", b"RIFF", riff, b"WAVE", b"fmt ")
        + fmt
        + struct.pack("<4sI", b"data", data)
    )


class PcmEncoder:
    """Signed 16-bit little-endian samples and nothing else."""

    def __init__(self, sample_rate: int, *, whole: bool) -> None:
        self.size = 0
        self._sample_rate = sample_rate
        self._whole = whole
        self._held = [] if whole else [self._header(None)]

    def write(self, samples: NDArray[np.float32]) -> bytes:
        data = pcm16(samples)
        self.size += len(data)
        self._held.append(data)
        return b"" if self._whole else self._take()

    def finish(self) -> bytes:
        if self._whole:
            self._held.insert(0, self._header(self.size))
        return self._take()

    def _header(self, size: int | None) -> bytes:
        return b""

    def _take(self) -> bytes:
        taken = b"".join(self._held)
        self._held.clear()
        return taken


class WavEncoder(PcmEncoder):
    """A WAV file. Its header tells the length if it is made whole."""

    def _header(self, size: int | None) -> bytes:
        return wav_header(self._sample_rate, size)
