"""Requests that no model can serve, made from what a task says it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_host.graph import FieldType, RequestField, Task

__all__ = ["BadRequest", "bad_requests"]

_NO_VOICE = "no voice has this name"
_WRONG: Mapping[FieldType, tuple[Any, ...]] = {
    "string": (5, ["a"]),
    "integer": ("five", 1.5, [1]),
    "number": ("five", math.nan, [1.0]),
    "boolean": ("yes", 5),
    "audio": (5, b"", b"this is no audio file"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRequest:
    """A payload with one wrong value, and the names by which a refusal may call it."""

    payload: Mapping[str, Any]
    value: Any
    fields: frozenset[str]

    def __str__(self) -> str:
        return f"{sorted(self.fields)[0]}={self.value!r}"


def bad_requests(task: Task, good: Mapping[str, Any]) -> Iterator[BadRequest]:
    """Each differs from the `good` payload in one field."""
    for value in (None, "", " \n", 5, ["a"]):
        yield _changed(good, "text", value, also="input")
    if task.voices:
        for value in (_NO_VOICE, 5, ["a"]):
            yield _changed(good, "voice", value)
    if "instructions" in task.honours:
        for value in (5, ["a"]):
            yield _changed(good, "instructions", value)
    if "speed" in task.honours:
        for value in ("fast", 0, -1.0, math.nan, math.inf):
            yield _changed(good, "speed", value)
    for field in task.fields:
        for value in _wrong_values(field):
            yield _changed(good, field.name, value)


def _wrong_values(field: RequestField) -> Iterator[Any]:
    yield from _WRONG[field.type]
    if field.choices:
        yield "none of the choices"
    if field.minimum is not None:
        yield _number(field, field.minimum - 1)
    if field.maximum is not None:
        yield _number(field, field.maximum + 1)


def _number(field: RequestField, value: float) -> float | int:
    return int(value) if field.type == "integer" else value


def _changed(
    good: Mapping[str, Any], field: str, value: Any, *, also: str | None = None
) -> BadRequest:
    names = frozenset(filter(None, (field, also)))
    return BadRequest(payload={**good, field: value}, value=value, fields=names)
