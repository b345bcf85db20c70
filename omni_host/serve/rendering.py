"""What a model speaks, at the tempo and in the format that were asked for."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from omni_host.audio import Encoder, Tempo
from omni_host.serve.speech_request import SpeechOrder

__all__ = ["Rendering"]


class Rendering:
    """The audio of one response. See `omni_host.audio.Encoder` for when bytes come.

    What takes its time is done in threads; one call has to end before the next.
    """

    def __init__(self, order: SpeechOrder, sample_rate: int) -> None:
        self._order = order
        self._sample_rate = sample_rate
        self._in_thread = order.format.compressed or order.tempo != 1
        self._tempo: Tempo | None = None
        self._encoder: Encoder | None = None

    @property
    def size(self) -> int:
        """Bytes so far, whether they were returned or not."""
        return self._encoder.size if self._encoder else 0

    async def write(self, samples: NDArray[np.float32]) -> bytes:
        """Render float32 samples [n], mono, -1..1."""
        if self._in_thread:
            return await asyncio.to_thread(self._write, samples)
        return self._write(samples)

    async def finish(self) -> bytes:
        """What was held back."""
        if self._in_thread:
            return await asyncio.to_thread(self._finish)
        return self._finish()

    def _write(self, samples: NDArray[np.float32]) -> bytes:
        tempo, encoder = self._parts()
        return encoder.write(tempo.write(samples))

    def _finish(self) -> bytes:
        tempo, encoder = self._parts()
        return encoder.write(tempo.finish()) + encoder.finish()

    def _parts(self) -> tuple[Tempo, Encoder]:
        """Made where they are used, since the first of them imports FFmpeg."""
        if self._tempo is None or self._encoder is None:
            self._tempo = Tempo(self._sample_rate, self._order.tempo)
            whole = self._order.delivery == "whole"
            self._encoder = self._order.format.encoder(self._sample_rate, whole=whole)
        return self._tempo, self._encoder
