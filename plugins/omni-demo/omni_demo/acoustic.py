"""Second stage: phonemes to spectral frames."""

from __future__ import annotations

from omni_demo import arguments, weights
from omni_demo.request import read_request
from omni_host.api import Job, StageContext

__all__ = ["AcousticStage"]


class AcousticStage:
    """Emits the frames of each sentence: `Frames` of `omni_demo.hibari_adapter`.

    Server arguments: `threads`, of the ONNX session (1).
    """

    def __init__(self, context: StageContext) -> None:
        arguments.refuse_others(context, frozenset({"threads"}))
        threads = arguments.threads(context)
        context.report("checking hibari.onnx", 0.0)
        weights.check(weights.ACOUSTIC_FILES, stage=context.name)
        from omni_demo.hibari_adapter import AcousticModel  # noqa: PLC0415 - checked first

        context.report("loading hibari.onnx", 0.3)
        self._model = AcousticModel(stage=context.name, threads=threads)

    async def process(self, job: Job) -> None:
        request = read_request(await job.payload("request"))
        async for ids in job.stream():
            # One sentence a turn: requests that speak at once alternate.
            await job.emit(await job.compute(self._model.frames, ids, request.speed))
