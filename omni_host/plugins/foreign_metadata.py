"""Distributions that no folder on the path shows: in zip files and behind custom finders."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import importlib_metadata

from omni_host.plugins.distributions import UNKNOWN_VERSION, Distribution, normalized

__all__ = ["of_finders", "of_path"]

Found = tuple[Distribution, str]


def of_path(entry: str) -> Iterator[Found]:
    """The distributions in one path entry, such as a zip file or an egg, and their texts."""
    yield from _read(importlib_metadata.distributions(path=[entry]), entry)


def of_finders() -> Iterator[Found]:
    """The distributions that finders of `sys.meta_path` list, other than those of the path."""
    context = importlib_metadata.DistributionFinder.Context()
    for finder in list(sys.meta_path):
        owner = finder if isinstance(finder, type) else type(finder)
        listing = getattr(finder, "find_distributions", None)
        if listing is None or owner.__module__ in PATH_FINDERS:
            continue
        yield from _read(listing(context), f"finder {owner.__module__}.{owner.__qualname__}")


PATH_FINDERS = ("_frozen_importlib_external", "importlib_metadata")


def _read(distributions: Iterable[importlib_metadata.Distribution], place: str) -> Iterator[Found]:
    for found in distributions:
        headers = found.metadata
        name = headers["Name"] if headers is not None and "Name" in headers else ""
        version = headers["Version"] if headers is not None and "Version" in headers else ""
        distribution = Distribution(
            name=normalized(name), version=version or UNKNOWN_VERSION, metadata=place
        )
        yield distribution, found.read_text("entry_points.txt") or ""
