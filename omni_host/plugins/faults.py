"""Faults: what is wrong with an installed plugin, and how to put it right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Fault",
    "FaultKind",
    "as_sentence",
    "close_matches",
    "did_you_mean",
    "log_fault",
    "upgrade_or_block",
]

FaultKind = Literal[
    "malformed-entry-points",
    "unknown-group",
    "shadowed-distribution",
    "duplicate-name",
    "import-failed",
    "exits-at-import",
    "forbidden-import",
    "no-plugin-info",
    "name-mismatch",
    "api-version",
    "unknown-hook",
    "unmarked-hook",
    "repeated-hook",
    "hook-arguments",
    "hook-order",
    "hook-wrapper",
    "invalid-hook",
    "claim-without-plugin",
    "claim-without-offer",
    "offer-without-claim",
    "duplicate-offer",
    "hook-failed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with one plugin; `plugin` is empty where a whole distribution is at fault.

    `cause` is a sentence; `fix` holds a command or a setting that can be typed.
    """

    plugin: str
    distribution: str
    version: str
    kind: FaultKind
    cause: str
    fix: str

    def __str__(self) -> str:
        who = f"plugin '{self.plugin}' of {self.distribution}" if self.plugin else self.distribution
        return f"{who} {self.version}: {self.cause}"

    @property
    def order(self) -> tuple[str, str, str, str, str]:
        """The key that faults are sorted by, so that reports do not depend on load order."""
        return (self.plugin, self.distribution, self.version, self.kind, self.cause)


def close_matches(name: str, known: Iterable[str]) -> list[str]:
    """The known names that `name` may have been meant to be, the closest first."""
    folded = {k.casefold().replace("_", "-"): k for k in sorted(known)}
    found = difflib.get_close_matches(name.casefold().replace("_", "-"), folded, n=3, cutoff=0.6)
    return [folded[f] for f in found]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'build_stages'?`, or nothing when no name is close."""
    matches = close_matches(name, known)
    return f" Did you mean '{matches[0]}'?" if matches else ""


def upgrade_or_block(plugin: str, distribution: str) -> str:
    """What an operator can do about a defect of a plugin."""
    return f"pip install --upgrade {distribution}, or leave it out: --plugins-block {plugin}"


def as_sentence(text: str) -> str:
    """`text` with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def log_fault(fault: Fault) -> None:
    """Warn whoever runs the host; what asks for the whole report need not listen."""
    import logging  # noqa: PLC0415 - 5 ms that a listing without faults need not pay

    logging.getLogger("omni_host.plugins").warning("%s (fix: %s)", fault, fault.fix)
