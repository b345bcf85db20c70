"""A player without a buffer, to tell how long it would have been starved."""

from __future__ import annotations

__all__ = ["Playback"]


class Playback:
    """Follows one stream. Times are of one monotonic clock, in seconds.

    The player starts with the first chunk and plays without pause; whenever the next
    chunk comes after it has run dry, the gap counts as underrun.
    """

    def __init__(self) -> None:
        self.audio_s = 0.0
        self.underrun_s = 0.0
        self.waited_s = 0.0
        self._dry_at: float | None = None

    def chunk(self, now: float, seconds: float) -> None:
        """A chunk of so many seconds has come."""
        dry_at = now if self._dry_at is None else self._dry_at
        self.underrun_s += max(0.0, now - dry_at)
        self._dry_at = max(now, dry_at) + seconds
        self.audio_s += seconds

    def waited(self, seconds: float) -> None:
        """The client itself was slow to take a chunk, so nothing starved meanwhile."""
        self.waited_s += seconds
        if self._dry_at is not None:
            self._dry_at += seconds
