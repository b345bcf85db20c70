"""What hooks return, held to their specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

__all__ = ["Expect", "UnexpectedResultError", "each", "nothing", "one", "optional", "patch"]

T = TypeVar("T")
Expect = Callable[[object], T]


class UnexpectedResultError(Exception):
    """A hook returned what its specification does not allow; becomes a HookError."""


def one(kind: type[T]) -> Expect[T]:
    """Exactly a `kind`."""

    def check(result: object) -> T:
        if not isinstance(result, kind):
            raise _unexpected(result, kind.__name__)
        return result

    return check


def optional(kind: type[T]) -> Expect[T | None]:
    """A `kind` or None."""

    def check(result: object) -> T | None:
        if result is not None and not isinstance(result, kind):
            raise _unexpected(result, f"{kind.__name__} or None")
        return result

    return check


def each(kind: type[T]) -> Expect[tuple[T, ...]]:
    """An iterable of `kind`; None stands for an empty one. A generator is run to its end."""

    def check(result: object) -> tuple[T, ...]:
        if result is None:
            return ()
        if isinstance(result, (str, bytes, Mapping)) or not isinstance(result, Iterable):
            raise _unexpected(cast("object", result), f"an iterable of {kind.__name__}")
        items = tuple(cast("Iterable[object]", result))
        for item in items:
            if not isinstance(item, kind):
                raise _unexpected(item, kind.__name__, among="among its items ")
        return cast("tuple[T, ...]", items)

    return check


def nothing(result: object) -> None:
    """An observer's answer is ignored."""


def patch(result: object) -> Mapping[str, Any] | None:
    """Server arguments to set: names and plain data, or None."""
    if result is None:
        return None
    if not isinstance(result, Mapping):
        raise _unexpected(result, "a mapping or None")
    items = cast("Mapping[object, object]", result)
    for key, value in items.items():
        if not isinstance(key, str):
            raise _unexpected(key, "str", among="as a key ")
        _require_plain(value, key)
    return cast("Mapping[str, Any]", dict(items))


def _require_plain(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise _unexpected(key, "str", among=f"as a key of '{where}' ")
            _require_plain(inner, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(cast("Iterable[object]", value)):
            _require_plain(inner, f"{where}[{index}]")
    elif value is not None and not isinstance(value, (bool, int, float, str)):
        raise _unexpected(value, "plain data", among=f"for '{where}' ")


def _unexpected(result: object, expected: str, among: str = "") -> UnexpectedResultError:
    shown = "None" if result is None else f"a {type(result).__name__}"
    return UnexpectedResultError(f"returned {among}{shown}, expected {expected}")
