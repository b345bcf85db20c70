"""Audio to encode, recordings to decode, and ways to compare."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np

RATE = 24_000


def tone(frequency: float, rate: int = RATE, seconds: float = 1.0) -> np.ndarray:
    """A sine at half of full scale, float32 [n]."""
    angle = np.arange(round(seconds * rate)) * (2 * np.pi * frequency / rate)
    return (0.5 * np.sin(angle)).astype(np.float32)


def voice(rate: int = RATE, seconds: float = 1.0) -> np.ndarray:
    """Harmonics of a gliding pitch, swelling like syllables, float32 [n]: lengths and
    places in it are told apart, as in speech."""
    time = np.arange(round(seconds * rate)) / rate
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * 0.7 * time)) / rate
    harmonics = sum(np.sin(number * phase) / number for number in range(1, 20))
    return (0.2 * harmonics * (0.55 - 0.45 * np.cos(2 * np.pi * 4 * time))).astype(np.float32)


def chunks(samples: np.ndarray, size: int) -> list[np.ndarray]:
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def recording(
    samples: np.ndarray,
    *,
    container: str,
    codec: str,
    rate: int = RATE,
    layout: str = "mono",
    **options: str,
) -> bytes:
    """A file of float32 samples [n] or [channels, n]."""
    interleaved = np.ascontiguousarray(np.atleast_2d(samples).T).reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(interleaved, "flt", layout)
    frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
    file = io.BytesIO()
    with av.open(file, "w", format=container, container_options=options) as output:
        stream: Any = output.add_stream(codec, rate, layout=layout)
        for packets in (stream.encode(frame), stream.encode(None)):
            output.mux(packets)
    return file.getvalue()


def film(*, seconds: int = 1) -> bytes:
    """A film without sound."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        stream: Any = output.add_stream("mpeg4", 10, width=32, height=32, pix_fmt="yuv420p")
        for _ in range(10 * seconds):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def signal_to_noise(expected: np.ndarray, got: np.ndarray) -> float:
    """In dB, over what both have."""
    count = min(len(expected), len(got))
    noise = np.mean((got[:count] - expected[:count]) ** 2)
    return float(10 * np.log10(np.mean(expected[:count] ** 2) / max(noise, 1e-20)))


def pitch(samples: np.ndarray, rate: int = RATE) -> float:
    """The strongest frequency in Hz, away from the ends."""
    inner = samples[len(samples) // 8 : -len(samples) // 8]
    spectrum = np.abs(np.fft.rfft(inner * np.hanning(len(inner)), 2**18))
    return float(np.argmax(spectrum)) * rate / 2**18
