"""`entry_points.txt`: what a distribution claims, read without importing it."""

from __future__ import annotations

from dataclasses import dataclass

from omni_host.plugins.distributions import Distribution
from omni_host.plugins.faults import Fault, FaultKind, did_you_mean

__all__ = ["CLAIM_GROUPS", "COMMANDS", "GROUPS", "PLUGINS", "EntryPoint", "parse"]

PREFIX = "omni_host."
PLUGINS = "omni_host.plugins"
COMMANDS = "omni_host.commands"
CLAIM_GROUPS = (
    "omni_host.models",
    "omni_host.platforms",
    "omni_host.engines",
    "omni_host.transports",
    "omni_host.launchers",
)
GROUPS = (PLUGINS, *CLAIM_GROUPS, COMMANDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """One line: `name = value` in `[group]`."""

    group: str
    name: str
    value: str
    distribution: Distribution


def parse(text: str, distribution: Distribution) -> tuple[list[EntryPoint], list[Fault]]:
    """The entry points of the host's groups, and a fault for every line that cannot be read.

    Lines of other groups are nobody's business here and are skipped.
    """
    found: dict[tuple[str, str], EntryPoint] = {}
    faults: list[Fault] = []
    group: str | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            group = line[1:-1].strip() if line.endswith("]") else None
            problem = _problem_of_header(line, group)
        elif group is not None and not group.startswith(PREFIX):
            continue
        else:
            name, _, value = (part.strip() for part in line.partition("="))
            problem = _problem_of_line(group, name, value, line, found)
            if problem is None and group in GROUPS:
                found[group, name] = EntryPoint(
                    group=group, name=name, value=value, distribution=distribution
                )
        if problem is not None:
            faults.append(_fault(distribution, number, problem))
    return list(found.values()), faults


Problem = tuple[FaultKind, str]


def _problem_of_header(line: str, group: str | None) -> Problem | None:
    if group is None:
        return "malformed-entry-points", f"'{line}' has no closing bracket"
    if group.startswith(PREFIX) and group not in GROUPS:
        return "unknown-group", f"there is no group '{group}'.{did_you_mean(group, GROUPS)}"
    return None


def _problem_of_line(
    group: str | None, name: str, value: str, line: str, found: dict[tuple[str, str], EntryPoint]
) -> Problem | None:
    if group is None:
        what = f"'{line}' stands under no group"
    elif not name or not value:
        what = f"'{line}' is not of the form 'name = module'"
    elif (group, name) in found:
        what = f"'{name}' stands twice under [{group}]"
    else:
        what = _problem_of_value(group, name, value)
    return ("malformed-entry-points", what) if what else None


def _problem_of_value(group: str, name: str, value: str) -> str | None:
    module, colon, attribute = value.partition(":")
    if not _dotted(module) or (colon and not _dotted(attribute)):
        return f"'{value}' is not a dotted name"
    if group == COMMANDS and not colon:
        return f"the command '{name}' must be 'module:command'"
    if group != COMMANDS and colon:
        return f"'{name}' must name the plugin's module, not an object"
    return None


def _dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _fault(distribution: Distribution, number: int, problem: Problem) -> Fault:
    kind, what = problem
    return Fault(
        plugin="",
        distribution=distribution.name,
        version=distribution.version,
        kind=kind,
        cause=f"entry_points.txt, line {number}: {what}",
        fix=f"pip install --force-reinstall {distribution.name}",
    )
