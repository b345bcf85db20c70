"""MP3, Opus in Ogg, AAC in ADTS, and FLAC."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import av
import numpy as np
from numpy.typing import NDArray

from omni_host.audio.pcm import audible, quantized

__all__ = ["CompressedEncoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compression:
    """How FFmpeg is to write a format.

    Attributes:
        codec, container: FFmpeg's names.
        rates: sample rates in Hz to choose from; none stands for any.
        bit_rate: bits per second, 0 for lossless.
        codec_options, container_options: as `ffmpeg` takes them.
    """

    codec: str
    container: str
    rates: tuple[int, ...] = ()
    bit_rate: int = 0
    codec_options: Mapping[str, str] = field(default_factory=dict[str, str])
    container_options: Mapping[str, str] = field(default_factory=dict[str, str])

    def rate_for(self, given: int) -> int:
        """The rate to encode at: a multiple where there is one, and not less if possible."""
        if not self.rates:
            return given
        multiples = (rate for rate in self.rates if rate % given == 0)
        above = (rate for rate in self.rates if rate > given)
        return next(multiples, None) or next(above, self.rates[-1])


COMPRESSIONS: Final[Mapping[str, _Compression]] = {
    "mp3": _Compression(
        codec="libmp3lame",
        container="mp3",
        rates=(16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
        bit_rate=96_000,
        # Bits saved for later frames would hold the first ones back, by up to 50 ms.
        codec_options={"reservoir": "0"},
        # Tags are not audio: a stream begins with its first frame.
        container_options={"id3v2_version": "0"},
    ),
    "opus": _Compression(
        codec="libopus",
        container="ogg",
        rates=(8_000, 12_000, 16_000, 24_000, 48_000),
        bit_rate=48_000,
        # Beyond 5 of 10 the encoder takes three times as long for little at this rate.
        codec_options={"compression_level": "5"},
        # A page for every packet of 20 ms, instead of one for a second.
        container_options={"page_duration": "20000"},
    ),
    "aac": _Compression(
        codec="aac",
        container="adts",
        # Its frames have 1,024 samples, and it needs two for the first byte: at 24 kHz
        # that is longer than many a model's first chunk.
        rates=(44_100, 48_000),
        bit_rate=96_000,
    ),
    "flac": _Compression(
        codec="flac",
        container="flac",
        # 24 ms at 24 kHz, where FFmpeg would take 96 ms.
        codec_options={"frame_size": "576"},
        container_options={"metadata_header_padding": "0"},
    ),
}


class CompressedEncoder:
    """An encoder by the name of its format. See `omni_host.audio.formats.Encoder`.

    Whole files decode to as many samples as were written, except AAC: ADTS cannot say that
    the first frame of 1,024 samples is the encoder's delay, nor where the last one ends.
    The same goes for a streamed MP3, where the delay is 1,105 samples.
    """

    def __init__(self, name: str, sample_rate: int, *, whole: bool) -> None:
        chosen = COMPRESSIONS[name]
        self._sample_rate = sample_rate
        self._written = 0
        self._lossless = not chosen.bit_rate
        self._sink = _File() if whole else _Stream()
        # PyAV's types of what can be muxed are unfinished.
        self._container: Any = av.open(
            self._sink,
            "w",
            format=chosen.container,
            container_options={"flush_packets": "1", **chosen.container_options},
        )
        rate = chosen.rate_for(sample_rate)
        options = dict(chosen.codec_options)
        self._stream = self._container.add_stream(chosen.codec, rate, options, layout="mono")
        if chosen.bit_rate:
            self._stream.bit_rate = chosen.bit_rate
        self._container.start_encoding()

    @property
    def size(self) -> int:
        """Bytes made so far."""
        return self._sink.size

    def write(self, samples: NDArray[np.float32]) -> bytes:
        """Encode float32 samples [n]; returns bytes, of a stream only."""
        if len(samples):
            self._container.mux(self._stream.encode(self._frame(samples)))
        return self._sink.take()

    def finish(self) -> bytes:
        """The rest of a stream, or the whole file."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.rest()

    def _frame(self, samples: NDArray[np.float32]) -> av.AudioFrame:
        if self._lossless:
            # What a lossless file holds is what PCM of the same audio holds.
            frame = av.AudioFrame.from_ndarray(quantized(samples)[None], "s16", "mono")
        else:
            frame = av.AudioFrame.from_ndarray(audible(samples)[None], "flt", "mono")
        frame.sample_rate = self._sample_rate
        frame.time_base = Fraction(1, self._sample_rate)
        frame.pts = self._written
        self._written += len(samples)
        return frame


class _Stream:
    """What FFmpeg cannot go back in, so it leaves lengths open."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self.size += len(data)
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken

    def rest(self) -> bytes:
        return self.take()


class _File(io.BytesIO):
    """Where FFmpeg puts the lengths once it knows them."""

    @property
    def size(self) -> int:
        return self.getbuffer().nbytes

    def take(self) -> bytes:
        return b""

    def rest(self) -> bytes:
        return self.getvalue()
