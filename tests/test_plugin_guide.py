"""What the guide to plugins says in its tables is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omni_host.errors import OmniError
from omni_host.plugins.entry_points import GROUPS

GUIDE = (Path(__file__).resolve().parents[1] / "docs" / "plugins.md").read_text()


def kinds(root: type[OmniError] = OmniError) -> Iterator[type[OmniError]]:
    if root.__module__ == OmniError.__module__:
        yield root
    for child in root.__subclasses__():
        yield from kinds(child)


def test_every_error_is_in_the_table_with_its_codes():
    rows = re.findall(r"^\| (OMNI-\S+) \| `(\w+)` \| (\d+) \| (\d+) \|$", GUIDE, re.MULTILINE)
    assert rows == sorted(
        (k.code, k.__name__, str(k.exit_code), str(k.http_status)) for k in kinds()
    )


def test_every_group_of_entry_points_is_in_the_table():
    assert tuple(re.findall(r"^\| `(omni_host\.\w+)` \|", GUIDE, re.MULTILINE)) == GROUPS
