"""Slots of shared memory, handed out again and again.

Segments are cut into slots of one size. Sizes come in classes, four to each power of
two, so at most a quarter of a slot is unused. The slot given back last is handed out
first: its pages are mapped and warm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omni_host.errors import WireError
from omni_host.transports.segments import Segment

__all__ = ["Slot", "SlotPool", "slot_size"]

SMALLEST_STEP = 16 * 1024
SEGMENT_SIZE = 16 * 1024 * 1024


def slot_size(nbytes: int) -> int:
    """The size of the slots that `nbytes` bytes go into."""
    step = max(SMALLEST_STEP, 1 << max((nbytes - 1).bit_length() - 3, 0))
    return -(-max(nbytes, 1) // step) * step


@dataclass(slots=True, kw_only=True)
class _Block:
    """A segment, how many of its slots are out, and since when none is."""

    segment: Segment
    slot_size: int
    out: int = 0
    idle_since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A piece of a segment."""

    block: _Block
    offset: int

    @property
    def segment(self) -> Segment:
        return self.block.segment


class SlotPool:
    """Not for several threads at once.

    Args:
        create: makes a segment of so many bytes.
        limit: bytes of all segments together.
        clock: seconds.
    """

    def __init__(
        self, create: Callable[[int], Segment], limit: int, clock: Callable[[], float]
    ) -> None:
        self._create = create
        self._limit = limit
        self._clock = clock
        self._blocks: list[_Block] = []
        self._free: dict[int, list[Slot]] = {}
        self.reserved = 0

    def take(self, nbytes: int) -> Slot:
        """A slot of at least `nbytes` bytes. Raises WireError once the limit is reached."""
        size = slot_size(nbytes)
        free = self._free.setdefault(size, [])
        if not free:
            free.extend(reversed(self._grow(size)))
        slot = free.pop()
        slot.block.out += 1
        return slot

    def give(self, slot: Slot) -> None:
        """Take a slot back."""
        block = slot.block
        block.out -= 1
        if block.out == 0:
            block.idle_since = self._clock()
        self._free[block.slot_size].append(slot)

    def trim(self, idle_s: float) -> None:
        """Close the segments that have been idle for `idle_s` seconds."""
        since = self._clock() - idle_s
        self._drop([block for block in self._blocks if not block.out and block.idle_since <= since])

    def close(self) -> None:
        """Close all segments; slots that are out must not be given back any more."""
        self._drop(list(self._blocks))

    def _grow(self, size: int) -> list[Slot]:
        if self._limit - self.reserved < size:
            self._make_room(size)
        room = self._limit - self.reserved
        if room < size:
            raise WireError(f"{self.reserved} of {self._limit} bytes are in use, {size} are needed")
        length = max(min(SEGMENT_SIZE, room) // size, 1) * size
        block = _Block(segment=self._create(length), slot_size=size)
        self._blocks.append(block)
        self.reserved += length
        return [Slot(block=block, offset=offset) for offset in range(0, length, size)]

    def _make_room(self, size: int) -> None:
        idle = sorted((b for b in self._blocks if not b.out), key=lambda b: b.idle_since)
        while idle and self._limit - self.reserved < size:
            self._drop([idle.pop(0)])

    def _drop(self, blocks: list[_Block]) -> None:
        for block in blocks:
            self._blocks.remove(block)
            self.reserved -= block.segment.address.size
            free = self._free[block.slot_size]
            free[:] = [slot for slot in free if slot.block is not block]
            block.segment.close()
