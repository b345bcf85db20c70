"""The report: which plugins there are, what they claim, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omni_host.plugins.claims import Claims, StaticClaim
from omni_host.plugins.discovery import Discovery
from omni_host.plugins.entry_points import COMMANDS, PLUGINS, EntryPoint
from omni_host.plugins.faults import Fault

__all__ = ["PluginReport", "PluginState", "Report", "report_of_discovery"]

PluginState = Literal["found", "loaded", "broken", "blocked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin; what only its module tells is empty unless it is loaded."""

    name: str
    distribution: str
    version: str
    metadata: str
    module: str
    state: PluginState
    summary: str = ""
    api_version: int | None = None
    verified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything in order of name, so that it does not depend on what was found first."""

    plugins: tuple[PluginReport, ...]
    claims: tuple[StaticClaim, ...]
    commands: tuple[EntryPoint, ...]
    faults: tuple[Fault, ...]

    def to_data(self) -> dict[str, Any]:
        """What `omni list-plugins --json` prints."""
        return {
            "plugins": [{name: getattr(p, name) for name in PLUGIN_KEYS} for p in self.plugins],
            "claims": [
                {
                    "group": claim.group,
                    "name": claim.name,
                    "plugin": claim.plugin,
                    "distribution": claim.distribution.name,
                    "version": claim.distribution.version,
                }
                for claim in self.claims
            ],
            "commands": [
                {
                    "name": command.name,
                    "target": command.value,
                    "distribution": command.distribution.name,
                    "version": command.distribution.version,
                }
                for command in self.commands
            ],
            "faults": [{name: getattr(f, name) for name in FAULT_KEYS} for f in self.faults],
        }


PLUGIN_KEYS = (
    "name",
    "distribution",
    "version",
    "metadata",
    "module",
    "state",
    "summary",
    "api_version",
    "verified",
)
FAULT_KEYS = ("plugin", "distribution", "version", "kind", "cause", "fix")


def report_of_discovery(discovery: Discovery, blocked: frozenset[str] = frozenset()) -> Report:
    """The report without importing any plugin."""
    claims = Claims.of(discovery)
    plugins = tuple(
        PluginReport(
            name=point.name,
            distribution=point.distribution.name,
            version=point.distribution.version,
            metadata=point.distribution.metadata,
            module=point.value,
            state="blocked" if point.name in blocked else "found",
        )
        for point in discovery.group(PLUGINS)
    )
    faults = sorted({*discovery.faults, *claims.faults}, key=lambda fault: fault.order)
    return Report(
        plugins=plugins,
        claims=claims.entries,
        commands=discovery.group(COMMANDS),
        faults=tuple(faults),
    )
