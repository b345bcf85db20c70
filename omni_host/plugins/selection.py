"""The operator's choice of plugins: allow and block lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omni_host.errors import ConfigError
from omni_host.plugins.discovery import HOST_PLUGIN
from omni_host.plugins.entry_points import EntryPoint
from omni_host.plugins.faults import close_matches

__all__ = ["blocked_names"]


def blocked_names(
    points: Iterable[EntryPoint], allow: Sequence[str], block: Sequence[str]
) -> frozenset[str]:
    """The names of the plugins left out. An empty `allow` allows all; the host's own stays.

    Raises ConfigError for a name that no installed plugin has: a misspelt name must not
    let through what it was meant to keep out.
    """
    points = list(points)
    names = {p.name for p in points}
    for key, listed in (("plugins.allow", allow), ("plugins.block", block)):
        for name in listed:
            if name not in names:
                raise _unknown(key, name, points)
    both = sorted(set(allow) & set(block))
    if both:
        raise ConfigError(
            f"'{both[0]}' is both allowed and blocked.",
            hint=f"take '{both[0]}' out of plugins.allow or plugins.block",
            field="plugins.block",
        )
    if HOST_PLUGIN in block:
        raise ConfigError(
            f"'{HOST_PLUGIN}' is the host itself and cannot be blocked.",
            hint=f"take '{HOST_PLUGIN}' out of plugins.block",
            field="plugins.block",
        )
    left_out = names - {HOST_PLUGIN, *allow} if allow else set[str]()
    return frozenset(left_out | set(block))


def _unknown(key: str, name: str, points: Sequence[EntryPoint]) -> ConfigError:
    """A plugin may also have been meant by the name of its distribution."""
    meant = {p.name: p.name for p in points} | {p.distribution.name: p.name for p in points}
    closest = close_matches(name, meant)
    names = ", ".join(sorted({p.name for p in points})) or "none"
    question = f" Did you mean '{meant[closest[0]]}'?" if closest else ""
    return ConfigError(
        f"{key} names '{name}', but no such plugin is installed.{question}",
        hint=f"installed plugins: {names}",
        field=key,
    )
