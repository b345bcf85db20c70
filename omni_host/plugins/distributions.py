"""An installed distribution, as far as the name of its metadata folder tells."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["Distribution", "distribution_of_folder", "normalized"]

UNKNOWN_VERSION = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A distribution; `metadata` is its `.dist-info` or `.egg-info` folder, or a description."""

    name: str
    version: str
    metadata: str

    @property
    def installed(self) -> bool:
        """False for an `.egg-info`, which a mere build leaves behind."""
        return not self.metadata.endswith(".egg-info")

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def normalized(name: str) -> str:
    """The name that PyPI compares by: lower case, runs of `-`, `_`, `.` as one `-`."""
    parts = name.lower().replace("_", "-").replace(".", "-").split("-")
    return "-".join(part for part in parts if part)


def distribution_of_folder(folder: str) -> Distribution:
    """Read name and version off `name-version.dist-info`; its metadata only where they lack."""
    stem = os.path.basename(folder).rpartition(".")[0]  # noqa: PTH119 - pathlib costs 10 ms
    name, _, rest = stem.partition("-")
    version = rest.partition("-py")[0]
    if not version:
        headers = _headers(folder)
        name = headers.get("name", name)
        version = headers.get("version", UNKNOWN_VERSION)
    return Distribution(name=normalized(name), version=version, metadata=folder)


def _headers(folder: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for file in ("METADATA", "PKG-INFO"):
        try:
            with open(f"{folder}/{file}", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - as above
                for line in lines:
                    if not line.strip():
                        break
                    key, _, value = line.partition(":")
                    headers.setdefault(key.strip().lower(), value.strip())
        except OSError:
            continue
    return headers
