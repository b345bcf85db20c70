"""The stages of the toy voice: words, and a tone for each of them."""

from __future__ import annotations

import asyncio
import math

import numpy as np

from omni_host.api import Call, Job, StageContext
from omni_host.errors import InvalidRequestError

SAMPLE_RATE = 8000
SAMPLES_PER_CHARACTER = 800
PITCHES = {"low": 220.0, "high": 440.0}
MOODS = {"calm": 0.3, "merry": 0.4}


class Words:
    """Checks the request and takes its text apart."""

    def __init__(self, context: StageContext) -> None:
        self.name = context.name

    def run_batch(self, calls: list[Call]) -> list[object]:
        return [self.read(call.input) for call in calls]

    def read(self, asked: dict) -> object:
        try:
            return checked(asked)
        except InvalidRequestError as error:
            return error


class Tones:
    """Emits a tone for each word, as long as the word."""

    def __init__(self, context: StageContext) -> None:
        self.name = context.name

    async def process(self, job: Job) -> None:
        asked = await job.payload("words")
        for index, word in enumerate(asked["words"]):
            await asyncio.sleep(0.002)
            await job.emit(self.tone(word, index, asked))

    def tone(self, word: str, index: int, asked: dict) -> np.ndarray:
        count = int((len(word) + 1) * SAMPLES_PER_CHARACTER / asked["speed"])
        turns = np.arange(count) * (PITCHES[asked["voice"]] / SAMPLE_RATE) + asked["seed"] / 7
        depth = 1 + asked["vibrato"] * np.sin(np.arange(count) / 500)
        tone = np.sin(2 * np.pi * turns) * depth / 2 * MOODS[asked["mood"]] * (1 + index % 3) / 3
        return tone.astype(np.float32)


def checked(asked: dict) -> dict:
    words = text_of(asked).split()
    return {
        "words": words,
        "voice": one_of("voice", asked["voice"], PITCHES),
        "speed": number("speed", asked["speed"], 1.0, 0.25, 4.0),
        "instructions": instructions(asked["instructions"]),
        "seed": whole("seed", asked["seed"]),
        "vibrato": number("vibrato", asked["vibrato"], 0.0, 0.0, 1.0),
        "mood": one_of("mood", asked["mood"], MOODS),
    }


def text_of(asked: dict) -> str:
    text = asked["text"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequestError("There is no text.", field="input")
    return text


def instructions(value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise InvalidRequestError("They are no text.", field="instructions")
    return value or ""


def one_of(field: str, value: object, known: dict) -> object:
    if not isinstance(value, str) or value not in known:
        raise InvalidRequestError(f"Not {value!r}.", field=field)
    return value


def whole(field: str, value: object) -> int:
    if not isinstance(value, int):
        raise InvalidRequestError(f"Not {value!r}.", field=field)
    return value


def number(field: str, value: object, default: float, low: float, high: float) -> float:
    if value is None:
        return default
    if not isinstance(value, int | float) or not math.isfinite(value) or not low <= value <= high:
        raise InvalidRequestError(f"Not {value!r}.", field=field)
    return float(value)
