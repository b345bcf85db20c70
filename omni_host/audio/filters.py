"""Filters of mono audio that comes in pieces: another sample rate, another tempo."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from omni_host.audio.pcm import audible

if TYPE_CHECKING:
    from omni_host.audio.filter_graph import MonoFilter

__all__ = ["Resampler", "Tempo", "resampling"]

TEMPO_STEPS = (0.5, 2.0)
"""Beyond these FFmpeg's atempo repeats or drops whole pieces, so several are chained."""


class Resampler:
    """From `source` to `target` Hz. n samples become n * target / source, to within one."""

    def __init__(self, source: int, target: int) -> None:
        same = source == target
        self._filter = None if same else _filter(source, [resampling(target)])

    def write(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 samples [n] in; float32 [m] out, of which the end is held back."""
        return self._filter.write(samples) if self._filter else samples

    def finish(self) -> NDArray[np.float32]:
        """What was held back."""
        return self._filter.finish() if self._filter else np.empty(0, np.float32)


class Tempo:
    """Faster or slower without another pitch. n samples become n / speed.

    The filter looks ahead: some 80 ms have to come in for the first samples to come out,
    200 ms at four times the speed. A speed of 1 changes and delays nothing. What is louder
    than -1..1 is clipped.
    """

    def __init__(self, sample_rate: int, speed: float) -> None:
        self._speed = speed
        self._filter = None if speed == 1 else _filter(sample_rate, _tempo(speed))
        # FFmpeg hands out as late as it gets much at once, and the cuts leave traces.
        self._piece = sample_rate // 50
        self._held = np.empty(0, np.float32)
        self._look_ahead = sample_rate // 4
        self._in = self._out = 0

    def write(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 samples [n] in; float32 [m] out."""
        if self._filter is None:
            return samples
        self._in += len(samples)
        held = np.concatenate((self._held, audible(samples)))
        ready = len(held) - len(held) % self._piece
        self._held = held[ready:]
        return self._counted(self._filtered(held[:ready]))

    def finish(self) -> NDArray[np.float32]:
        """What was held back."""
        if self._filter is None or not self._in:
            return np.empty(0, np.float32)
        # Without something behind it the filter would drop the last of the audio.
        last = self._filtered(np.pad(self._held, (0, self._look_ahead)))
        rest = np.concatenate((last, self._filter.finish()))
        wanted = max(0, round(self._in / self._speed) - self._out)
        return self._counted(np.pad(rest[:wanted], (0, max(0, wanted - len(rest)))))

    def _filtered(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        assert self._filter is not None
        starts = range(0, len(samples), self._piece)
        out = [self._filter.write(samples[start : start + self._piece]) for start in starts]
        return np.concatenate(out) if out else np.empty(0, np.float32)

    def _counted(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        self._out += len(samples)
        return samples


def resampling(target: int) -> tuple[str, str]:
    """FFmpeg's filter to `target` Hz, and its arguments.

    Twice its default length keeps errors 95 dB below the signal, for little more time.
    """
    return "aresample", f"{target}:filter_size=64"


def _filter(sample_rate: int, filters: list[tuple[str, str]]) -> MonoFilter:
    return import_module("omni_host.audio.filter_graph").MonoFilter(sample_rate, filters)


def _tempo(speed: float) -> list[tuple[str, str]]:
    slowest, fastest = TEMPO_STEPS
    steps: list[float] = []
    while not slowest <= speed <= fastest:
        steps.append(slowest if speed < slowest else fastest)
        speed /= steps[-1]
    return [("atempo", f"{step:.9g}") for step in (*steps, speed)]
