"""Which pages hold which prompt prefixes: a tree with a page at each node.

A page is found by the keys and positions of its rows below the page before it, compared in
full, so neither equal rows at other positions nor a clash of hashes can match.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from torch import Tensor

from omni_host.engines.prompts import RowKey

__all__ = ["CachedPage", "PrefixCache"]

_PageKey = tuple[RowKey, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class CachedPage:
    """A node of the tree.

    `states` are the captured states of its rows, layer -> [page_size, width], where they
    were wanted when the page was computed. `holders` counts the requests that use it; who
    holds a page holds all pages above it.
    """

    key: _PageKey
    page: int
    parent: CachedPage | None
    states: Mapping[int, Tensor] | None = None
    children: dict[_PageKey, CachedPage] = field(default_factory=dict[_PageKey, "CachedPage"])
    holders: int = 0
    used: int = 0


_Offer = tuple[int, int, CachedPage]
"""When the page was last used, a number that tells offers apart, and the page."""

_SLACK = 64


class PrefixCache:
    """Finds, keeps and evicts cached pages, the longest unused first."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._root = CachedPage(key=(), page=-1, parent=None, holders=1)
        self._clock = count(1)
        self._evictable: list[_Offer] = []
        self._idle = 0

    @property
    def idle(self) -> int:
        """Pages that no request holds, all of which can be evicted."""
        return self._idle

    def match(self, keys: Sequence[RowKey], limit: int, wanted: Sequence[int]) -> list[CachedPage]:
        """The longest cached prefix within `limit` rows, page by page.

        It ends before the first page that has a wanted row but no states.
        """
        size = self._page_size
        pages_wanted = {row // size for row in wanted}
        found: list[CachedPage] = []
        node = self._root
        for index in range(min(limit, len(keys)) // size):
            child = node.children.get(tuple(keys[index * size : (index + 1) * size]))
            if child is None or (index in pages_wanted and child.states is None):
                break
            found.append(child)
            node = child
        return found

    def hold(self, pages: Sequence[CachedPage]) -> None:
        for node in pages:
            self._idle -= not node.holders
            node.holders += 1

    def release(self, pages: Sequence[CachedPage]) -> None:
        """The inverse of `hold`; the pages count as used now."""
        now = next(self._clock)
        for node in reversed(pages):
            node.holders -= 1
            node.used = now
            self._idle += not node.holders
            self._offer(node)

    def insert(
        self,
        keys: Sequence[RowKey],
        held: Sequence[CachedPage],
        pages: Sequence[int],
        states: Mapping[int, Mapping[int, Tensor]],
    ) -> tuple[list[CachedPage], set[int]]:
        """Keep a prompt's whole pages.

        Args:
            keys: of the prompt's rows.
            held: its first pages, cached before and held by the caller.
            pages: all its pages, of which those after `held` are the caller's own.
            states: index of a page -> the captured states of its rows.

        Returns: the nodes after `held`, now held by the caller too, and which of its own
        pages went over to the cache. Where a page of equal content is cached already, the
        caller's own stays the caller's.
        """
        size = self._page_size
        node = held[-1] if held else self._root
        nodes: list[CachedPage] = []
        given: set[int] = set()
        for index in range(len(held), len(keys) // size):
            key = tuple(keys[index * size : (index + 1) * size])
            child = node.children.get(key)
            if child is None:
                child = CachedPage(key=key, page=pages[index], parent=node)
                node.children[key] = child
                given.add(pages[index])
                self._idle += 1
            if child.states is None:
                child.states = states.get(index)
            nodes.append(child)
            node = child
        self.hold(nodes)
        return nodes, given

    def evict(self) -> int:
        """Give up the page that was unused for longest; one must be idle."""
        offer = heapq.heappop(self._evictable)
        while not _stands(offer):
            offer = heapq.heappop(self._evictable)
        node = offer[2]
        parent = node.parent
        assert parent is not None
        del parent.children[node.key]
        node.parent = None
        self._idle -= 1
        self._offer(parent)
        return node.page

    def _offer(self, node: CachedPage) -> None:
        """A leaf that nobody holds can be evicted; stale offers are recognised later."""
        if not node.holders and not node.children:
            heapq.heappush(self._evictable, (node.used, next(self._clock), node))
        if len(self._evictable) > 2 * self._idle + _SLACK:
            self._evictable = [offer for offer in self._evictable if _stands(offer)]
            heapq.heapify(self._evictable)


def _stands(offer: _Offer) -> bool:
    used, _, node = offer
    idle = node.parent is not None and not node.holders and not node.children
    return idle and node.used == used
