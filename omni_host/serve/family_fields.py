"""The request fields of a model family, as pydantic sees them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from omni_host.errors import GraphError
from omni_host.graph import FieldType, RequestField, Task

__all__ = ["family_definitions", "family_values"]

_TYPES: Mapping[FieldType, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "audio": str,
}
_INT64 = 2**63 - 1
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,")


def family_definitions(task: Task, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `pydantic.create_model`, one for each field of the family.

    The client's name is the alias: what a family calls a field is no Python name that
    could shadow one of pydantic's. Raises GraphError for a name of the OpenAI API.
    """
    clash = sorted({field.name for field in task.fields} & set(taken))
    if clash:
        raise GraphError(f"Task '{task.name}' redefines the API's own field '{clash[0]}'.")
    return {_attribute(index): _definition(field) for index, field in enumerate(task.fields)}


def family_values(task: Task, asked: object) -> dict[str, Any]:
    """The family's part of the payload; a field left out, or null, has its default.

    `audio` fields are the bytes of an audio file.
    """
    values: dict[str, Any] = {}
    for index, field in enumerate(task.fields):
        value = getattr(asked, _attribute(index))
        values[field.name] = field.default if value is None else value
    return values


def _attribute(index: int) -> str:
    return f"family_{index}"


def _definition(field: RequestField) -> tuple[Any, Any]:
    kind: Any = _TYPES[field.type]
    if field.choices:
        kind = Annotated[
            kind,
            AfterValidator(_one_of(field.choices)),
            WithJsonSchema({"type": "string", "enum": list(field.choices)}),
        ]
    elif field.type == "audio":
        kind = Annotated[
            kind,
            AfterValidator(_audio_bytes),
            WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
        ]
    else:
        kind = Annotated[kind, _bounds(field)]
    default = None if field.type == "audio" else field.default
    return (kind | None, Field(default, alias=field.name, description=field.description))


def _bounds(field: RequestField) -> FieldInfo:
    low, high = field.minimum, field.maximum
    if field.type == "integer":
        return Field(ge=-_INT64 if low is None else low, le=_INT64 if high is None else high)
    if field.type == "number":
        return Field(ge=low, le=high, allow_inf_nan=False)
    return Field()


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in choices:
            raise PydanticCustomError(
                "choice", "it must be one of {choices}", {"choices": ", ".join(choices)}
            )
        return value

    return check


def _audio_bytes(value: str) -> bytes:
    prefix = _DATA_URL.match(value)
    try:
        audio = base64.b64decode(value[prefix.end() :] if prefix else value, validate=True)
    except (binascii.Error, ValueError):
        audio = b""
    if not audio:
        raise PydanticCustomError(
            "audio", "it must be an audio file in base64, bare or as a data: URL"
        )
    return audio
