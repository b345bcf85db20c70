"""What can be in a payload, and what exactly is wrong with one that cannot be carried."""

from __future__ import annotations

from typing import Any, cast

from omni_host.errors import WireError
from omni_host.transports.tensors import describe, is_tensor

__all__ = ["CARRIED", "explain", "is_carriable"]

CARRIED = "None, bool, int, float, str, bytes, list, dict with str keys, numpy and torch tensors"

LEAVES = frozenset((type(None), bool, int, float, str, bytes))


def is_carriable(value: object) -> bool:
    """Whether every type in `value` can be carried; fast, as each payload goes through it."""
    kind = type(value)
    if kind is dict:
        entries: Any = value
        for key, item in entries.items():
            if type(key) is not str or not (type(item) in LEAVES or is_carriable(item)):
                return False
        return True
    if kind is list or kind is tuple:
        items: Any = value
        return LEAVES.issuperset(map(type, items)) or all(map(is_carriable, items))
    return kind in LEAVES or is_tensor(value)


def explain(value: Any, error: Exception | None) -> WireError:
    """The error to raise for a `value` whose encoding failed, with `error` if it got that far."""
    try:
        fault = _fault(value, "payload")
    except RecursionError:
        fault = None
    if fault is None and isinstance(error, WireError):
        return error
    return fault or WireError(f"the payload is nested too deeply, or holds itself: {error}")


def _fault(value: Any, path: str) -> WireError | None:
    if type(value) is dict:
        entries = cast("dict[Any, Any]", value)
        for key in entries:
            if type(key) is not str:
                return WireError(f"{path} has a key {key!r} of type {_type(key)}; keys are str")
        items = [(f"{path}.{key}", item) for key, item in entries.items()]
    elif type(value) in (list, tuple):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return _leaf_fault(value, path)
    return next(filter(None, (_fault(item, where) for where, item in items)), None)


def _leaf_fault(value: Any, path: str) -> WireError | None:
    if is_tensor(value):
        try:
            describe(value)
        except WireError as error:
            return WireError(f"{path}: {error.message}", hint=error.hint)
    elif type(value) not in LEAVES:
        return WireError(f"{path} is of type {_type(value)}, which cannot be carried")
    elif type(value) is int and not -(2**63) <= value < 2**64:
        return WireError(f"{path} is an int of more than 64 bits, which cannot be carried")
    elif type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return WireError(f"{path} is a str that is not valid Unicode: {error}")
    return None


def _type(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
