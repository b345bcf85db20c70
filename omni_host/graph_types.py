"""Is a graph of the types that its dataclasses declare? Asked before anything is read off it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from omni_host.errors import GraphError
from omni_host.graph import Edge, StageGraph

__all__ = ["check_types"]

LONGEST = 60
"""Characters of a value that are shown."""

_PLAIN = (bool, int, float, str)


def check_types(graph: StageGraph) -> None:
    """Raise GraphError, with object and field, for the first value of another type.

    Where the declared type is `Any`, plain data is meant: None, bool, int, float, str, and
    lists, tuples and mappings of them.
    """
    _check_fields(graph, "The graph", "")


def _check_fields(thing: Any, owner: str, prefix: str) -> None:
    kind: type = thing.__class__
    for name, hint in _hints(kind).items():
        _check(getattr(thing, name), hint, owner, f"{prefix}{name}")


def _check(value: Any, hint: Any, owner: str, where: str) -> None:
    if not _fits(value, hint):
        raise _mismatch(value, hint, owner, where)
    if dataclasses.is_dataclass(value):
        _check_fields(value, *_place(value, owner, where))
        return
    inner = _inner(hint, value)
    if inner is None:
        return
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise _mismatch(key, str, owner, f"a key of {where}")
            _check(item, inner, owner, f"{where}.{key}")
    elif isinstance(value, AbstractSet):
        for item in sorted(cast("AbstractSet[Any]", value), key=repr):
            _check(item, inner, owner, f"an item of {where}")
    else:
        for index, item in enumerate(cast("Iterable[Any]", value)):
            _check(item, inner, owner, f"{where}[{index}]")


def _fits(value: Any, hint: Any) -> bool:
    """Whether the value itself fits; what it holds is looked at one by one."""
    origin = get_origin(hint)
    if hint is Any:
        return value is None or isinstance(value, (*_PLAIN, list, tuple, Mapping))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if hint in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if hint is float else origin or hint)


def _inner(hint: Any, value: Any) -> Any:
    """The type of what a collection holds, or None for what is none."""
    if isinstance(value, str) or not isinstance(value, (Mapping, AbstractSet, list, tuple)):
        return None
    # tuple[X, ...] and frozenset[X] name it first, Mapping[str, X] last.
    return Any if hint is Any else get_args(hint)[1 if isinstance(value, Mapping) else 0]


def _place(thing: Any, owner: str, where: str) -> tuple[str, str]:
    """What to call a dataclass: `Task 'speech'`, or by its field where it has no name."""
    name = getattr(thing, "name", getattr(thing, "stage", None))
    if isinstance(thing, Edge):
        return f"Edge {thing.source} -> {thing.target} ({thing.kind})", ""
    if name is None:
        return owner, f"{where}."
    kind = type(thing).__name__.removesuffix("Spec").removeprefix("Request")
    if owner == "The graph":
        return f"{kind} {name!r}", ""
    return f"{owner}: {kind.lower()} {name!r}", ""


def _mismatch(value: Any, hint: Any, owner: str, where: str) -> GraphError:
    better = _better(value, hint)
    return GraphError(
        f"{owner}: {where} is {_said(value)}; expected {_expected(hint)}"
        f"{f': {better}' if better else ''}.",
        field=owner.split("'")[1] if "'" in owner else None,
    )


def _said(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{_article(kind)} {kind}, {_shown(value)}"


def _expected(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return "plain data (None, bool, int, float, str, and lists and mappings of them)"
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in (Union, UnionType):
        return " or ".join("None" if a is type(None) else _expected(a) for a in arguments)
    if origin in (tuple, frozenset):
        return f"a {origin.__name__} of {arguments[0].__name__}"
    kind = (origin or hint).__name__
    return "a mapping" if origin is Mapping else f"{_article(kind)} {kind}"


def _better(value: Any, hint: Any) -> str:
    """How the value was probably meant, as it would be typed; empty if nobody can tell."""
    origin: Any = get_origin(hint)
    arguments = get_args(hint)
    if hint is str and callable(value) and hasattr(value, "__qualname__"):
        return repr(f"{value.__module__}:{value.__qualname__}")
    if hint is str and isinstance(value, (int, float)):
        return repr(str(value))
    wrap = _WRAPPED.get(origin)
    if wrap is None:
        return ""
    if _fits(value, arguments[0]):
        return wrap([value])
    if isinstance(value, (list, tuple, AbstractSet)):
        items = list(cast("Iterable[Any]", value))
        if items and all(_fits(item, arguments[0]) for item in items):
            return wrap(sorted(items, key=repr) if isinstance(value, AbstractSet) else items)
    return ""


def _as_tuple(items: list[Any]) -> str:
    return f"({', '.join(map(_shown, items))}{',' if len(items) == 1 else ''})"


def _as_frozenset(items: list[Any]) -> str:
    return f"frozenset({{{', '.join(map(_shown, items))}}})"


_WRAPPED: Mapping[type, Callable[[list[Any]], str]] = {
    tuple: _as_tuple,
    frozenset: _as_frozenset,
}


def _shown(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _article(kind: str) -> str:
    return "an" if kind[0].lower() in "aeiou" else "a"


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
