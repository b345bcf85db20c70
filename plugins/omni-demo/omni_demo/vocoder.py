"""Third stage: spectral frames to samples, by an inverse STFT in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omni_demo import weights
from omni_demo.arguments import refuse_others
from omni_demo.request import read_request
from omni_host.api import Job, StageContext

if TYPE_CHECKING:
    from omni_demo.hibari_adapter import Frames

__all__ = ["VocoderStage"]


class VocoderStage:
    """Emits the samples of each sentence, float32 mono at 24 kHz.

    One noise generator lasts for the whole request, as in hibari, so the samples are
    those of `Hibari.stream(text, speed, seed)`.
    """

    def __init__(self, context: StageContext) -> None:
        refuse_others(context)
        context.report("loading the vocoder", 0.0)
        weights.check_version(stage=context.name)
        from omni_demo.hibari_adapter import synthesize  # noqa: PLC0415 - checked first

        self._synthesize = synthesize

    async def process(self, job: Job) -> None:
        request = read_request(await job.payload("request"))
        noise = np.random.default_rng(request.seed)
        async for frames in job.stream():
            await job.emit(await job.compute(self._speak, frames, noise))

    def _speak(self, frames: Frames, noise: np.random.Generator) -> npt.NDArray[np.float32]:
        samples = self._synthesize(frames, noise)
        return np.clip(samples, -1.0, 1.0, out=samples)
