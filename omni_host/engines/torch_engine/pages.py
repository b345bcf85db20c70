"""Which pages of the KV cache are free."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Pages"]


class Pages:
    """A free list; the lowest pages go first, and a page is never given twice."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """A free page; there must be one."""
        return self._free.pop()

    def give_back(self, pages: Iterable[int]) -> None:
        self._free.extend(pages)
        assert len(self._free) <= self.count
