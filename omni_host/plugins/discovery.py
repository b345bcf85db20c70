"""Discovery: one raw pass over `sys.path`, importing nothing of any plugin.

`importlib.metadata` parses the metadata of everything installed and takes five
times as long; it is the fall-back for zip files and custom finders alone. What a
module-level import costs here is paid by every `omni list-plugins --no-load`, hence
`os` in place of `pathlib`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omni_host.plugins.distributions import Distribution, distribution_of_folder
from omni_host.plugins.entry_points import PLUGINS, PREFIX, EntryPoint, parse
from omni_host.plugins.faults import Fault

__all__ = ["HOST_DISTRIBUTION", "HOST_PLUGIN", "Discovery", "discover"]

HOST_DISTRIBUTION = "omni-host"
HOST_PLUGIN = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What is installed: entry points in order of group, name and distribution, and faults."""

    entry_points: tuple[EntryPoint, ...]
    faults: tuple[Fault, ...]

    def group(self, name: str) -> tuple[EntryPoint, ...]:
        """The entry points of one group, such as `omni_host.commands`."""
        return tuple(e for e in self.entry_points if e.group == name)


@dataclass(slots=True)
class _Found:
    distribution: Distribution
    text: str
    undecodable: bool = False


def discover(path: Sequence[str] | None = None) -> Discovery:
    """Scan `path` (by default `sys.path`) for plugins and claims.

    Never raises for what it finds: an unreadable folder is skipped, a malformed file
    is a fault.
    """
    winners: dict[str, _Found] = {}
    faults: list[Fault] = []
    for found in _installed(sys.path if path is None else path, custom=path is None):
        name = found.distribution.name
        other = winners.setdefault(name, found)
        if other is found:
            continue
        # An egg-info is what a build leaves behind; what was installed stands above it.
        stands_above = found.distribution.installed and not other.distribution.installed
        winner, loser = (found, other) if stands_above else (other, found)
        winners[name] = winner
        if winner.text or loser.text:
            faults.append(_shadowed(loser.distribution, winner.distribution))
    entry_points: list[EntryPoint] = []
    for found in winners.values():
        points, problems = parse(found.text, found.distribution) if found.text else ([], [])
        entry_points += points
        faults += problems
        if found.undecodable:
            faults.append(_undecodable(found.distribution))
    return Discovery(
        entry_points=tuple(
            sorted(entry_points, key=lambda e: (e.group, e.name, e.distribution.name))
        ),
        faults=tuple(sorted([*faults, *_duplicates(entry_points)], key=lambda f: f.order)),
    )


def _installed(path: Sequence[str], *, custom: bool) -> Iterator[_Found]:
    seen: set[str] = set()
    for entry in path:
        folder = os.path.realpath(entry or ".")
        if folder in seen:
            continue
        seen.add(folder)
        try:
            with os.scandir(folder) as entries:
                names = [e.name for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            yield from _foreign(entry)
        except OSError:
            continue
        else:
            for name in sorted(names, key=_version_order, reverse=True):
                yield _read(f"{folder}/{name}")
            if folder.endswith(".egg"):
                yield from _foreign(entry)
    if custom and any(_lists_distributions(finder) for finder in sys.meta_path):
        yield from _foreign(None)


def _version_order(folder: str) -> str:
    """Numbers compare as numbers: of two versions in one folder the newer is taken."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(8), folder)


def _read(folder: str) -> _Found:
    distribution = distribution_of_folder(folder)
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123 - pathlib costs 10 ms
            data = file.read()
    except OSError:
        return _Found(distribution, "")
    if PREFIX.encode() not in data:
        return _Found(distribution, "")
    try:
        return _Found(distribution, data.decode())
    except UnicodeDecodeError:
        return _Found(distribution, data.decode(errors="replace"), undecodable=True)


def _lists_distributions(finder: object) -> bool:
    """True for a custom finder; those of the path are what the scan stands in for."""
    owner = finder if isinstance(finder, type) else type(finder)
    own = {"_frozen_importlib_external", "importlib_metadata"}
    return hasattr(finder, "find_distributions") and owner.__module__ not in own


def _foreign(entry: str | None) -> Iterator[_Found]:
    """What lies in a zip file or an egg, or where custom finders (None) say."""
    from omni_host.plugins import foreign_metadata  # noqa: PLC0415 - 30 ms that few need

    if entry is None:
        finders = [finder for finder in sys.meta_path if _lists_distributions(finder)]
        found = foreign_metadata.of_finders(finders)
    else:
        found = foreign_metadata.of_path(entry)
    for distribution, text in found:
        yield _Found(distribution, text if PREFIX in text else "")


def _shadowed(loser: Distribution, winner: Distribution) -> Fault:
    left_over = "" if loser.installed else ", left by a build,"
    return Fault(
        plugin="",
        distribution=loser.name,
        version=loser.version,
        kind="shadowed-distribution",
        cause=f"{loser.metadata}{left_over} is shadowed by {winner.metadata} ({winner.version})",
        fix=f"rm -r {shlex.quote(loser.metadata)}",
    )


def _undecodable(distribution: Distribution) -> Fault:
    return Fault(
        plugin="",
        distribution=distribution.name,
        version=distribution.version,
        kind="malformed-entry-points",
        cause="entry_points.txt is not UTF-8",
        fix=f"pip install --force-reinstall {distribution.name}",
    )


def _duplicates(entry_points: Sequence[EntryPoint]) -> Iterator[Fault]:
    """Plugin names that several distributions register: none of them is taken.

    The host's own name stays the host's, so that an intruder cannot take it away.
    """
    registered: dict[str, list[EntryPoint]] = {}
    for point in entry_points:
        if point.group == PLUGINS:
            registered.setdefault(point.name, []).append(point)
    for name, points in registered.items():
        for point in points if len(points) > 1 else ():
            others = sorted(str(p.distribution) for p in points if p is not point)
            if name == HOST_PLUGIN and point.distribution.name == HOST_DISTRIBUTION:
                continue
            yield Fault(
                plugin=name,
                distribution=point.distribution.name,
                version=point.distribution.version,
                kind="duplicate-name",
                cause=f"'{name}' is also the name of a plugin of {', '.join(others)}",
                fix=f"pip uninstall {point.distribution.name}",
            )
