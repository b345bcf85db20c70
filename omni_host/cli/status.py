"""What a command tells while it works: on standard error, a live line where that is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress

import click

from omni_host.runtime import StageProgress

__all__ = ["Status"]

ERASE = "\r\x1b[K"
REDRAW_S = 0.1


class Status:
    """Lines, and on a terminal one more that is overwritten as things change.

    `plain` asks for a line each time a stage tells something new where there is no terminal.
    A reader that went away stops nothing.
    """

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._live = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - `2>&-`
        self._drawn = False
        self._drawn_at = 0.0
        self._stages: dict[str, StageProgress] = {}

    def loading(self, progress: StageProgress) -> None:
        """A stage got further."""
        before = self._stages.get(progress.stage)
        self._stages[progress.stage] = progress
        if self._live:
            line = "loading  " + "   ".join(map(_described, self._stages.values()))
            self.draw(line, at_once=progress.ready)
        elif self._plain and (before is None or _news(before) != _news(progress)):
            self.say(f"{progress.stage}: {'ready' if progress.ready else progress.what}")

    def draw(self, line: str, *, at_once: bool = False) -> None:
        """Overwrite the live line, ten times a second unless `at_once`, if there is a terminal."""
        now = time.monotonic()
        soon = self._drawn and now - self._drawn_at < REDRAW_S
        if not self._live or (soon and not at_once):
            return
        self._drawn, self._drawn_at = True, now
        width = shutil.get_terminal_size().columns - 1
        self._write(f"{ERASE}{line[:width]}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        self._write(f"{line}\n")

    def clear(self) -> None:
        """Take the live line away."""
        if self._drawn:
            self._write(ERASE)
            self._drawn = False

    def _write(self, text: str) -> None:
        with suppress(BrokenPipeError):
            click.echo(text, err=True, nl=False)


def _news(progress: StageProgress) -> tuple[str, bool]:
    return progress.what, progress.ready


def _described(progress: StageProgress) -> str:
    if progress.ready:
        return f"{progress.stage} ready"
    share = "" if progress.fraction is None else f" {progress.fraction:.0%}"
    return f"{progress.stage} {progress.what}{share}"
