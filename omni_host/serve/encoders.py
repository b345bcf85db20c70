"""Audio formats: float32 samples in, bytes of the response out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMATS", "AudioFormat", "Encoder", "pcm16", "wav_header"]

UNKNOWN_SIZE = 0xFFFFFFFF
"""The size that a WAV header carries while nobody knows it, as ffmpeg and sox write it."""


class Encoder(Protocol):
    """One response in one format. Its bytes are header, every `encode` in order, `finish`."""

    def header(self, size: int | None) -> bytes:
        """What precedes the audio; `size` is its length in bytes, None while streaming."""
        ...

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """Encode float32 samples [n], mono, -1..1."""
        ...

    def finish(self) -> bytes:
        """What the encoder still holds back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFormat:
    """A `response_format`. `media_type` and `encoder` take the sample rate in Hz."""

    name: str
    media_type: Callable[[int], str]
    encoder: Callable[[int], Encoder]


def pcm16(samples: NDArray[np.float32]) -> bytes:
    """Samples as signed 16-bit little-endian: x * 32767, rounded half to even.

    What lies outside -1..1 is clipped, and NaN is silence.
    """
    audible = np.where(np.isnan(samples), np.float32(0), samples)
    return np.rint(audible.clip(-1.0, 1.0) * 32767.0).astype("<i2").tobytes()


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


class _Pcm:
    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate

    def header(self, size: int | None) -> bytes:
        return b""

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        return pcm16(samples)

    def finish(self) -> bytes:
        return b""


class _Wav(_Pcm):
    def header(self, size: int | None) -> bytes:
        return wav_header(self.sample_rate, size)


FORMATS: Mapping[str, AudioFormat] = {
    "wav": AudioFormat(name="wav", media_type=lambda _rate: "audio/wav", encoder=_Wav),
    "pcm": AudioFormat(
        name="pcm", media_type=lambda rate: f"audio/pcm;rate={rate};channels=1", encoder=_Pcm
    ),
}
"""The formats that this server can answer in; the first is the default."""
