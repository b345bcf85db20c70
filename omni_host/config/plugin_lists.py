"""Which plugins the operator allows and blocks, readable before anything is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from omni_host.config.keys import Key, dotted
from omni_host.config.sources import Entry
from omni_host.errors import ConfigError

__all__ = ["names", "plugin_lists"]


def plugin_lists(merged: Mapping[Key, Entry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names allowed (all, if none) and blocked. Raises ConfigError if they are no names."""
    return _list(merged, ("plugins", "allow")), _list(merged, ("plugins", "block"))


def names(value: Any) -> tuple[str, ...]:
    """A list of names, or one string with commas between them. Raises ValueError otherwise."""
    if isinstance(value, str):
        value = value.split(",")
    listed = cast("list[Any]", value) if isinstance(value, list) else None
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise ValueError("expected a list of names, or names with commas between them")
    return tuple(name.strip() for name in listed if name.strip())


def _list(merged: Mapping[Key, Entry], key: Key) -> tuple[str, ...]:
    entry = merged.get(key)
    if entry is None:
        return ()
    try:
        return names(entry.value)
    except ValueError as error:
        raise ConfigError(
            f"{dotted(key)} = {entry.value!r} (from {entry.source}) is not valid: {error}.",
            field=dotted(key),
        ) from None
