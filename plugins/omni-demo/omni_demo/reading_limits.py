"""What hibari's reader cannot take, or takes too long over, brought within its limits.

The reader's work grows with the *atoms* of a text: words, numbers and signs.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["spell_out", "split_runs", "turns"]

MAX_RUN = 16
"""Atoms that may follow without a space: the reader's time goes with the cube of it."""

MAX_TURN = 500
"""Atoms read at once: a fraction of a second at worst, so that requests can alternate."""

MAX_DIGITS = 36
"""Digits of the largest number that the reader has a name for."""

_RUN = re.compile(r"\S+")
_UPPER, _LOWER = "[A-ZÀ-ÖØ-Þ]", "[a-zß-öø-ÿ]"
_ATOM = re.compile(rf"{_UPPER}{{0,64}}{_LOWER}{{1,64}}|{_UPPER}{{1,64}}|\d{{1,3}}|[-_.]{{1,64}}|\S")
# The reader drops an apostrophe between digits.
_GROUPED_DIGITS = re.compile(rf"\d[\d,'‘’]{{{MAX_DIGITS},}}")  # noqa: RUF001
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")


def turns(sentence: str) -> list[str]:
    """The sentence as it is, or, if it has over `MAX_TURN` atoms, in parts of that many."""
    if len(_ATOM.findall(sentence)) <= MAX_TURN:
        return [sentence]
    parts: list[list[str]] = [[]]
    room = MAX_TURN
    for word in split_runs(sentence, MAX_TURN).split():
        size = len(_ATOM.findall(word))
        if size > room:
            parts.append([])
            room = MAX_TURN
        parts[-1].append(word)
        room -= size
    return [" ".join(words) for words in parts if words]


def split_runs(sentence: str, limit: int = MAX_RUN) -> str:
    """Put a space after every `limit` atoms that follow without one, as in long URLs."""

    def split(run: re.Match[str]) -> str:
        atoms = _ATOM.findall(run.group())
        starts = range(0, len(atoms), limit)
        return " ".join("".join(atoms[start : start + limit]) for start in starts)

    return _RUN.sub(split, sentence)


def spell_out(sentence: str) -> str:
    """Superscripts and their like as plain digits, over `MAX_DIGITS` digits one by one."""
    composed = unicodedata.normalize("NFKC", sentence)
    plain = "".join(str(unicodedata.digit(c)) if c.isdigit() else c for c in composed)
    spaced = _GROUPED_DIGITS.sub(lambda match: re.sub("\\D", ", ", match.group()), plain)
    return _DIGITS.sub(lambda match: " ".join(match.group()), spaced)
