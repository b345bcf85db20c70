"""The lock: which plugins every process of a deployment loads, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from omni_host.errors import LockError

__all__ = ["Lock", "LockedPlugin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPlugin:
    """A plugin as the host loaded it: `module` is its entry point's value."""

    name: str
    module: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({self.distribution} {self.version}, {self.module})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The plugins of one interpreter, in order of name."""

    python: str
    plugins: tuple[LockedPlugin, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain data, such as goes to a stage process; `from_data` is the inverse."""
        return {"python": self.python, "plugins": [asdict(p) for p in self.plugins]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Lock:
        """Rebuild a lock. Raises LockError if `data` is none."""
        try:
            plugins = tuple(LockedPlugin(**plugin) for plugin in data["plugins"])
            return cls(python=data["python"], plugins=plugins)
        except (KeyError, TypeError) as error:
            raise LockError(f"This is no plugin lock: {error}.") from error
