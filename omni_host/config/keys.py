"""Dotted names of settings: `stages.acoustic.device`, `edges."a->b".transport`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from omni_host.errors import ConfigError

__all__ = ["Key", "dotted", "parse_key"]

Key = tuple[str, ...]
"""A setting's name in parts."""

_PART = re.compile(r'\s*(?:"([^"]*)"|\'([^\']*)\'|([^."\']+?))\s*(\.|$)')
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse_key(text: str) -> Key:
    """Split a dotted name. Parts may be quoted as in TOML, and need not be for `a->b`."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise ConfigError(
                f"'{text}' is not a setting's name.",
                hint="Names look like server.port or stages.acoustic.device.",
            )
        parts.append(next(group for group in match.group(1, 2, 3) if group is not None))
        if match.group(4) != ".":
            return tuple(parts)
        position = match.end()


def dotted(key: Iterable[str]) -> str:
    """The inverse of `parse_key`, quoted where TOML wants it."""
    return ".".join(part if _BARE.fullmatch(part) else f'"{part}"' for part in key)
