"""First stage: text to phonemes, sentence by sentence."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from omni_demo import weights
from omni_demo.arguments import refuse_others
from omni_demo.request import read_request
from omni_host.api import Job, StageContext, errors

__all__ = ["TextStage"]


class TextStage:
    """Emits phoneme ids, int64 [L], for each thing that is spoken in one breath.

    Raises InvalidRequestError for a text in which there is nothing to speak.
    """

    def __init__(self, context: StageContext) -> None:
        refuse_others(context)
        context.report("checking the lexicon", 0.0)
        weights.check(weights.TEXT_FILES, stage=context.name)
        from omni_demo.hibari_adapter import Phonemizer  # noqa: PLC0415 - checked first

        context.report("loading the lexicon", 0.3)
        self._phonemizer = Phonemizer(stage=context.name)
        context.report("reading a first sentence", 0.9)
        self._phonemizer.read("Good morning, hibari.")

    async def process(self, job: Job) -> None:
        request = read_request(await job.payload())
        silent: deque[str] = deque()
        heard = False
        async for phonemes in self._read(job, request.text):
            silent.append(phonemes)
            heard = heard or self._phonemizer.sounds(phonemes)
            # Silence waits until there is something to say, so that a text without
            # anything is refused before the client has got any audio.
            while heard and silent:
                await self._emit(job, silent.popleft())
        if not heard:
            raise errors.InvalidRequestError(
                "The text has nothing that the demo voice can speak; it reads English.",
                field="input",
            )

    async def _read(self, job: Job, text: str) -> AsyncIterator[str]:
        for sentence in await job.compute(self._phonemizer.sentences, text):
            for phonemes in await job.compute(self._phonemizer.read, sentence):
                yield phonemes

    async def _emit(self, job: Job, phonemes: str) -> None:
        ids = self._phonemizer.ids(phonemes)
        if ids.size > 2:
            await job.emit(ids)
