"""Frozen dataclasses as plain data and back, driven by their annotations."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["from_plain", "to_plain"]

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """`value` as None, bool, int, float, str, bytes, list and dict.

    Raises TypeError for anything that is neither plain nor a dataclass of such.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return {key: to_plain(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, frozenset):
        return sorted(to_plain(item) for item in cast("frozenset[Any]", value))
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not plain data: {value!r}")


def from_plain(kind: type[T], data: Any) -> T:
    """The inverse, for a dataclass `kind`. Raises TypeError or KeyError if it does not fit."""
    return cast("T", _build(kind, data))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _build(kind: Any, data: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = _hints(cast("type[Any]", kind))
        return cast("Any", kind)(**{name: _build(hints[name], item) for name, item in data.items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if data is None else _build(arguments[0], data)
    if origin in (tuple, frozenset):
        return cast("Any", origin)(_build(arguments[0], item) for item in data)
    if origin is Mapping:
        return {key: _build(arguments[1], item) for key, item in data.items()}
    return Path(data) if kind is Path else data
