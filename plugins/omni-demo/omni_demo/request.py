"""The fields of a speech request, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omni_host.api import errors

__all__ = ["MAX_SEED", "SPEED_RANGE", "VOICES", "SpeechRequest", "read_request"]

VOICES = ("heart",)
"""The voices whose weights are installed; nothing is ever fetched."""

SPEED_RANGE = (0.5, 2.0)
"""The range that the acoustic model was made for: it stretches durations, not pitch."""

MAX_SEED = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """What a client asked for. `speed` divides durations; 1.0 is the voice's own pace."""

    text: str
    voice: str
    speed: float
    seed: int


def read_request(payload: Any) -> SpeechRequest:
    """Read the payload of task `speech`; absent and None fields take their defaults.

    Raises InvalidRequestError that names the field.
    """
    if not isinstance(payload, Mapping):
        raise errors.InvalidRequestError("The request must be an object with a `text`.")
    if payload.get("instructions"):
        raise errors.InvalidRequestError(
            "The demo voice follows no instructions.", field="instructions"
        )
    return SpeechRequest(
        text=_text(payload.get("text")),
        voice=_voice(payload.get("voice")),
        speed=_speed(payload.get("speed")),
        seed=_seed(payload.get("seed")),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise errors.InvalidRequestError("There is no text to speak.", field="input")
    return value


def _voice(value: Any) -> str:
    if value is None:
        return VOICES[0]
    if value not in VOICES:
        known = ", ".join(VOICES)
        raise errors.InvalidRequestError(
            f"There is no voice {value!r}; the known ones are: {known}.", field="voice"
        )
    return value


def _speed(value: Any) -> float:
    low, high = SPEED_RANGE
    if value is None:
        return 1.0
    # A NaN fails the comparison too.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise errors.InvalidRequestError(
            f"The speed must be a number from {low} to {high}, not {value!r}.", field="speed"
        )
    return float(value)


def _seed(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SEED:
        raise errors.InvalidRequestError(
            f"The seed must be a whole number from 0 to {MAX_SEED}, not {value!r}.", field="seed"
        )
    return int(value)
