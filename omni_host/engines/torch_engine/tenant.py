"""A request that holds a slot and pages of the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from omni_host.engines.ledger import Entry
from omni_host.engines.torch_engine.prefix_cache import CachedPage

__all__ = ["Chunk", "Tenant"]


@dataclass(slots=True, kw_only=True, eq=False)
class Tenant:
    """A running request.

    Attributes:
        entry: its books.
        slot: its row in everything that is kept by slot.
        rows, positions: what prefill has to bring into the cache, [T, width] and [P, T]:
            the prompt, and after a retraction what was fed since.
        pages: every page of its cache, in order.
        held: those of them at the front that belong to the prefix cache, as nodes.
        own: pages that it alone has, to be given back.
        filled: rows of `rows` in the cache so far.
        reused: rows of them that came from the prefix cache.
        states: layer -> [n, width], of the wanted prompt rows.
        page_states: index of a page -> layer -> [page_size, width], to be cached with it.
    """

    entry: Entry
    slot: int
    rows: Tensor
    positions: Tensor
    pages: list[int]
    held: list[CachedPage]
    own: set[int]
    filled: int = 0
    reused: int = 0
    states: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    page_states: dict[int, dict[int, Tensor]] = field(default_factory=dict[int, dict[int, Tensor]])

    @property
    def is_filled(self) -> bool:
        return self.filled == len(self.rows)

    @property
    def wants_states(self) -> bool:
        """Whether prefill has to capture: not after a retraction, the states are out then."""
        return bool(self.entry.prompt.wanted) and not self.entry.prefilled

    def place_states(self, first: int, states: Mapping[int, Tensor]) -> None:
        """Pick the wanted rows from captured states [n, width] of the rows from `first` on."""
        wanted = self.entry.prompt.wanted
        count = len(next(iter(states.values())))
        picked = [(at, row - first) for at, row in enumerate(wanted) if 0 <= row - first < count]
        if not picked:
            return
        to, rows = (list(part) for part in zip(*picked, strict=True))
        for layer, state in states.items():
            if layer not in self.states:
                self.states[layer] = state.new_empty(len(wanted), state.shape[1])
            self.states[layer][to] = state[rows]

    def keep_page_states(self, first: int, states: Mapping[int, Tensor], page_size: int) -> None:
        """Keep, of the states of the rows from `first` on, the pages that have wanted rows."""
        wanted = {row // page_size for row in self.entry.prompt.wanted}
        for layer, state in states.items():
            stop = first + len(state)
            for page in wanted & set(range(first // page_size, -(-stop // page_size))):
                kept = self.page_states.setdefault(page, {})
                if layer not in kept:
                    kept[layer] = state.new_empty(page_size, state.shape[1])
                start = page * page_size
                low, high = max(first, start), min(stop, start + page_size)
                kept[layer][low - start : high - start] = state[low - first : high - first]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows `start` .. `stop` of a tenant, to be brought into the cache in one step."""

    tenant: Tenant
    start: int
    stop: int

    @property
    def completes(self) -> bool:
        return self.stop == len(self.tenant.rows)

    @property
    def emits(self) -> bool:
        """Whether its last row decodes the first frame."""
        return self.completes and not self.tenant.entry.prefilled
