"""Static claims: which plugin says in its metadata that it provides what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omni_host.plugins.discovery import HOST_DISTRIBUTION, HOST_PLUGIN, Discovery
from omni_host.plugins.distributions import Distribution
from omni_host.plugins.entry_points import CLAIM_GROUPS, PLUGINS, EntryPoint
from omni_host.plugins.faults import Fault, did_you_mean

__all__ = ["Claims", "StaticClaim", "registrations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticClaim:
    """`name` of `group` is provided by `plugin`; `distribution` is where that is written."""

    group: str
    name: str
    plugin: str
    distribution: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All static claims, in order, and a fault for each that points at no plugin."""

    entries: tuple[StaticClaim, ...]
    faults: tuple[Fault, ...]

    @classmethod
    def of(cls, discovery: Discovery) -> Claims:
        """Pair the claims with the plugins whose modules they name."""
        modules = {p.value: p.name for p in discovery.group(PLUGINS)}
        entries: list[StaticClaim] = []
        faults: list[Fault] = []
        for point in discovery.entry_points:
            if point.group not in CLAIM_GROUPS:
                continue
            plugin = modules.get(point.value)
            if plugin is None:
                faults.append(_orphan(point, modules))
                continue
            entries.append(
                StaticClaim(
                    group=point.group,
                    name=point.name,
                    plugin=plugin,
                    distribution=point.distribution,
                )
            )
        return cls(entries=tuple(entries), faults=tuple(faults))

    def plugins_for(self, group: str, *names: str) -> tuple[str, ...]:
        """The plugins that claim one of `names`, in order of their names."""
        found = {c.plugin for c in self.entries if c.group == group and c.name in names}
        return tuple(sorted(found))

    def names(self, group: str) -> tuple[str, ...]:
        """Everything that is claimed in `group`, in order."""
        return tuple(sorted({c.name for c in self.entries if c.group == group}))


def registrations(discovery: Discovery) -> Iterator[EntryPoint]:
    """The plugins that may be loaded: a name that several distributions register is nobody's.

    The host's own name stays the host's.
    """
    points = discovery.group(PLUGINS)
    for point in points:
        namesakes = [p for p in points if p.name == point.name]
        hosts = point.name == HOST_PLUGIN and point.distribution.name == HOST_DISTRIBUTION
        if len(namesakes) == 1 or hosts:
            yield point


def _orphan(point: EntryPoint, modules: dict[str, str]) -> Fault:
    return Fault(
        plugin="",
        distribution=point.distribution.name,
        version=point.distribution.version,
        kind="claim-without-plugin",
        cause=f"the claim '{point.name} = {point.value}' of [{point.group}] names no module that "
        f"is registered in [{PLUGINS}].{did_you_mean(point.value, modules)}",
        fix=f"pip install --upgrade {point.distribution.name}",
    )
