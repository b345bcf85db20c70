"""Where the goldens are, and the parts of them that autoregressive decoders need.

The whole set is read from the folder in `OMNI_GOLDENS`, or from `shared/goldens` beside
the checkout; a small part lies in `tests/goldens`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ROOT / "tests" / "goldens"


@cache
def folder() -> Path:
    named = os.environ.get("OMNI_GOLDENS")
    if named:
        return Path(named)
    beside = ROOT.parent / "shared" / "goldens"
    return beside if beside.is_dir() else CARRIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    family: str
    name: str
    request: Mapping[str, Any]
    path: Path

    @property
    def checkpoint(self) -> Path:
        return folder() / "checkpoints" / self.request["checkpoint"]

    @property
    def items(self) -> int:
        return len(self.request["items"])

    def config(self) -> dict[str, Any]:
        return json.loads((self.checkpoint / "config.json").read_text())

    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(self.path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}


def cases(family: str) -> list[Case]:
    """The cases of a family that are there, in the manifest's order."""
    home = folder() / "cases" / family
    manifest = json.loads((home / "cases.json").read_text())
    found = [
        Case(family=family, name=c["name"], request=c["request"], path=home / c["file"])
        for c in manifest["cases"]
    ]
    return [case for case in found if case.path.exists()]


def speaking(family: str) -> list[Case]:
    """The cases in which a decoder runs: those that yield codes or text from a prompt."""
    return [case for case in cases(family) if case.request["task"] in {"tts", "chat"}]
