"""Plugins that are installed and cannot be used: broken ones, and blocked ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omni_host.errors import PluginError, PluginLoadError, UnclaimedError
from omni_host.plugins.faults import Fault, as_sentence

__all__ = ["Unusable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The fault of each broken plugin, and the names of those left out by the operator."""

    broken: dict[str, Fault]
    blocked: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.blocked | self.broken.keys()

    def error(self, plugins: Iterable[str], what: str) -> PluginError:
        """What to raise when `what` is asked for and only these plugins provide it."""
        listed = list(plugins)
        for name in listed:
            if name in self.broken:
                fault = self.broken[name]
                return PluginLoadError(
                    as_sentence(f"{what[0].upper()}{what[1:]} needs {fault}"),
                    hint=fault.fix,
                    field=name,
                )
        names = "' and '".join(listed)
        return UnclaimedError(
            f"{what[0].upper()}{what[1:]} needs plugin '{names}', which is blocked.",
            hint=f"take '{listed[0]}' out of plugins.block, or add it to plugins.allow",
            field="plugins.block",
        )

    def summary(self) -> str:
        """A sentence for errors that one of these may be the reason of, or nothing."""
        parts = [
            f"{kind}: {', '.join(sorted(names))}"
            for kind, names in (("broken", self.broken), ("blocked", self.blocked))
            if names
        ]
        return f" Not usable: {'; '.join(parts)}." if parts else ""
