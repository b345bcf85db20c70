"""Specs and policies as plain data and back: dicts, lists, strings and numbers alone.

    data = to_data(spec)                  # can be written as JSON or msgpack
    assert from_data(DecoderSpec, data) == spec

A field that may hold several kinds (a layer's MLP) carries its kind under `kind`; fields
at their defaults are left out.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from omni_host.errors import ConfigError

__all__ = ["from_data", "to_data"]

T = TypeVar("T")
_KIND = "kind"


def to_data(value: Any) -> Any:
    """A spec, policy or part of one as plain data."""
    if is_dataclass(value):
        data = {
            field.name: to_data(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != _default(field)
        }
        return {_KIND: type(value).__name__, **data}
    if isinstance(value, Mapping):
        return {key: to_data(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [to_data(item) for item in cast("tuple[Any, ...]", value)]
    return value


def from_data(kind: type[T], data: Any) -> T:
    """The inverse of `to_data`.

    Raises ConfigError that names what is unknown, missing or of another kind.
    """
    return cast("T", _read(kind, data, kind.__name__))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _read(hint: Any, data: Any, place: str) -> Any:
    if is_dataclass(hint):
        return _read_dataclass(cast("type[Any]", hint), data, place)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _read_union(arguments, data, place)
    if origin is tuple:
        _require(isinstance(data, list | tuple), data, "a list", place)
        hints = [arguments[0]] * len(data) if arguments[1:] == (...,) else arguments
        _require(len(data) == len(hints), data, f"a list of {len(hints)}", place)
        parts = zip(hints, data, strict=True)
        return tuple(_read(part, item, f"{place}[{at}]") for at, (part, item) in enumerate(parts))
    if origin is not None and origin is not Literal:
        _require(isinstance(data, Mapping), data, "a table", place)
        return {key: _read(arguments[1], item, f"{place}.{key}") for key, item in data.items()}
    return _read_plain(hint, data, place)


def _read_dataclass(kind: type[Any], data: Any, place: str) -> Any:
    named = isinstance(data, Mapping) and cast("Mapping[str, Any]", data).get(_KIND)
    _require(named == kind.__name__, data, f"a table of kind {kind.__name__}", place)
    hints = get_type_hints(kind)
    table = cast("Mapping[str, Any]", data)
    given = {key: item for key, item in table.items() if key != _KIND}
    for key in given:
        _require(key in hints, key, f"a field of {kind.__name__}", place)
    for field in fields(kind):
        needed = field.default is MISSING and field.default_factory is MISSING
        _require(not needed or field.name in given, None, "given", f"{place}.{field.name}")
    return kind(**{key: _read(hints[key], item, f"{place}.{key}") for key, item in given.items()})


def _read_union(options: tuple[Any, ...], data: Any, place: str) -> Any:
    if data is None and type(None) in options:
        return None
    kinds = [option for option in options if option is not type(None)]
    if isinstance(data, Mapping) and len(kinds) > 1:
        named = cast("Mapping[str, Any]", data).get(_KIND)
        kinds = [kind for kind in kinds if getattr(kind, "__name__", None) == named]
        _require(bool(kinds), data, "a table of a known kind", place)
    return _read(kinds[0], data, place)


def _read_plain(hint: Any, data: Any, place: str) -> Any:
    if get_origin(hint) is Literal:
        _require(data in get_args(hint), data, " or ".join(map(repr, get_args(hint))), place)
        return data
    wanted = (int, float) if hint is float else (hint,)
    _require(type(data) in wanted, data, f"of type {hint.__name__}", place)
    return hint(data)


def _require(holds: bool, found: Any, wanted: str, place: str) -> None:  # noqa: FBT001
    if not holds:
        raise ConfigError(f"{place} is {found!r}: it must be {wanted}", field=place)
