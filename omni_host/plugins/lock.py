"""The lock: which plugins every process of a deployment loads, exactly."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Lock", "LockedPlugin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPlugin:
    """A plugin as the host loaded it: `module` is its entry point's value."""

    name: str
    module: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The plugins of one interpreter, in order of name."""

    python: str
    plugins: tuple[LockedPlugin, ...]
