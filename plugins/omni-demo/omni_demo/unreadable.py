"""Text that hibari's reader chokes on, rewritten so that it does not."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["spell_out", "split_runs"]

MAX_ATOMS = 24
MAX_DIGITS = 36

_RUN = re.compile(r"\S+")
_ATOM = re.compile(r"[A-ZÀ-ÖØ-Þ]*[a-zß-öø-ÿ]+|[^\W\d_]+|\d+|[-_.]+|\S")
_GROUPED_DIGITS = re.compile(rf"\d[\d,]{{{MAX_DIGITS},}}")
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")


def split_runs(sentence: str) -> str:
    """Put a space after every 24th word, number or sign that follow without one.

    The reader takes time with the cube of their number: a run of 1000 takes minutes.
    Few texts but long URLs have such runs.
    """
    return _RUN.sub(_split_run, sentence)


def spell_out(sentence: str) -> str:
    """Superscripts and their like as plain digits, over 36 digits one by one."""
    plain = "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in sentence)
    spaced = _GROUPED_DIGITS.sub(lambda match: match.group().replace(",", ", "), plain)
    return _DIGITS.sub(lambda match: " ".join(match.group()), spaced)


def _split_run(run: re.Match[str]) -> str:
    atoms = _ATOM.findall(run.group())
    if len(atoms) <= MAX_ATOMS:
        return run.group()
    starts = range(0, len(atoms), MAX_ATOMS)
    return " ".join("".join(atoms[start : start + MAX_ATOMS]) for start in starts)
