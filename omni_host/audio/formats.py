"""The formats that audio leaves in: float32 samples in, bytes of a file or stream out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omni_host.audio.pcm import PcmEncoder, WavEncoder

__all__ = ["FORMATS", "AudioFormat", "Encoder"]


class Encoder(Protocol):
    """One file or stream. Its bytes are those of every `write` in order, and of `finish`.

    A stream hands out each byte as soon as the format allows, its header with the first
    ones. A whole file hands out everything in `finish`, because its header tells how much
    there is. `size` counts the bytes made so far, handed out or not.
    """

    size: int

    def write(self, samples: NDArray[np.float32]) -> bytes:
        """Encode float32 samples [n], mono, -1..1. Others are clipped, NaN is silence."""
        ...

    def finish(self) -> bytes:
        """What is held back. The encoder is of no more use then."""
        ...


class MakeEncoder(Protocol):
    def __call__(self, sample_rate: int, *, whole: bool) -> Encoder: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFormat:
    """A `response_format`, whole or streamed.

    Attributes:
        name: OpenAI's name of it.
        media_type: of a sample rate in Hz.
        encoder: makes an encoder from the sample rate of what will be written, in Hz. Where
            the format has other rates, it is resampled.
        compressed: whether encoding takes a millisecond or two for 100 ms of audio, which
            belongs beside an event loop, instead of some microseconds.
    """

    name: str
    media_type: Callable[[int], str]
    encoder: MakeEncoder
    compressed: bool


def _compressed(name: str, media_type: str) -> AudioFormat:
    def encoder(sample_rate: int, *, whole: bool) -> Encoder:
        compression = import_module("omni_host.audio.compression")
        return compression.CompressedEncoder(name, sample_rate, whole=whole)

    return AudioFormat(
        name=name, media_type=lambda _rate: media_type, encoder=encoder, compressed=True
    )


FORMATS: Mapping[str, AudioFormat] = {
    "mp3": _compressed("mp3", "audio/mpeg"),
    "opus": _compressed("opus", "audio/ogg"),
    "aac": _compressed("aac", "audio/aac"),
    "flac": _compressed("flac", "audio/flac"),
    "wav": AudioFormat(
        name="wav",
        media_type=lambda _rate: "audio/wav",
        encoder=WavEncoder,
        compressed=False,
    ),
    "pcm": AudioFormat(
        name="pcm",
        media_type=lambda rate: f"audio/pcm;rate={rate};channels=1",
        encoder=PcmEncoder,
        compressed=False,
    ),
}
"""All formats; the first is OpenAI's default."""
