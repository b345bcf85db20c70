"""Distributions that no folder on the path shows: in zip files and behind custom finders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import importlib_metadata

from omni_host.plugins.distributions import UNKNOWN_VERSION, Distribution, normalized

__all__ = ["of_finders", "of_path"]

Found = tuple[Distribution, str]
Context = importlib_metadata.DistributionFinder.Context


def of_path(entry: str) -> Iterator[Found]:
    """The distributions in one path entry, such as a zip file or an egg, and their texts."""
    # Asked as a finder, so that this entry alone is searched and custom finders are not.
    finder = importlib_metadata.MetadataPathFinder()
    yield from _read(lambda: finder.find_distributions(Context(path=[entry])), entry)


def of_finders(finders: Iterable[Any]) -> Iterator[Found]:
    """The distributions that finders of `sys.meta_path` list."""
    for finder in finders:
        place = f"finder {finder!r}"
        yield from _read(partial(finder.find_distributions, Context()), place)


def _read(listing: Callable[[], Iterable[Any]], place: str) -> Iterator[Found]:
    try:
        for found in listing():
            distribution = Distribution(
                name=normalized(found.name or ""),
                version=found.version or UNKNOWN_VERSION,
                metadata=place,
            )
            yield distribution, found.read_text("entry_points.txt") or ""
    except Exception:  # noqa: BLE001 - a finder is anyone's code, and lists what it can
        return
