"""The pool: slots are used again, bounded, and given back when idle."""

from __future__ import annotations

import itertools

import pytest

from omni_host.errors import WireError
from omni_host.transports.pool import SEGMENT_SIZE, Slot, SlotPool, slot_size
from omni_host.transports.segments import Segment, best_backing

KIB, MIB = 1024, 1024 * 1024


class Site:
    """A pool, the segments it created, and a clock that is set by hand."""

    def __init__(self, limit: int = 1024 * MIB) -> None:
        self.created: list[int] = []
        self.now = 0.0
        self.pool = SlotPool(self._create, limit, lambda: self.now)

    def _create(self, size: int) -> Segment:
        self.created.append(size)
        return Segment(f"omni-pooltest-{id(self):x}-{len(self.created)}", size, best_backing())

    def take(self, nbytes: int, count: int) -> list[Slot]:
        return [self.pool.take(nbytes) for _ in range(count)]


@pytest.mark.parametrize("nbytes", [1, 64 * KIB, 64 * KIB + 1, 100_000, MIB + 1, 123_456_789])
def test_a_slot_is_large_enough_aligned_to_pages_and_hardly_larger(nbytes: int) -> None:
    size = slot_size(nbytes)
    assert size >= nbytes
    assert size % (16 * KIB) == 0
    assert size <= max(nbytes * 1.25, 16 * KIB)


def test_sizes_that_are_a_class_of_their_own_waste_nothing() -> None:
    for power in range(16, 30):
        assert slot_size(1 << power) == 1 << power


def test_the_slot_given_back_last_is_taken_first() -> None:
    site = Site()
    first, second = site.take(MIB, 2)
    site.pool.give(second)
    site.pool.give(first)
    assert site.take(MIB, 2) == [first, second]


def test_ten_thousand_slots_come_from_one_segment() -> None:
    site = Site()
    for _ in range(10_000):
        site.pool.give(site.pool.take(100_000))
    assert len(site.created) == 1


def test_slots_that_are_out_never_overlap() -> None:
    site = Site()
    slots = site.take(100 * KIB, 400) + site.take(3 * MIB, 9)
    places = sorted((s.segment.address.name, s.offset, s.block.slot_size) for s in slots)
    for (name, offset, size), (next_name, next_offset, _) in itertools.pairwise(places):
        assert name != next_name or offset + size <= next_offset


def test_segments_are_no_larger_than_needed() -> None:
    site = Site()
    site.take(64 * KIB, 1)
    site.take(64 * MIB, 1)
    assert site.created == [SEGMENT_SIZE, 64 * MIB]


def test_the_limit_holds_and_says_how_much_is_in_use() -> None:
    site = Site(limit=10 * MIB)
    slots = site.take(4 * MIB, 2)
    with pytest.raises(WireError, match="8388608 of 10485760 bytes are in use"):
        site.pool.take(4 * MIB)
    site.pool.give(slots[0])
    assert site.pool.take(4 * MIB) == slots[0]


def test_a_small_limit_is_used_up() -> None:
    site = Site(limit=MIB)
    assert len(site.take(256 * KIB, 4)) == 4


def test_idle_segments_of_other_sizes_make_room() -> None:
    site = Site(limit=10 * MIB)
    for slot in site.take(2 * MIB, 5):
        site.pool.give(slot)
    site.pool.take(8 * MIB)
    assert site.pool.reserved == 8 * MIB


def test_a_segment_with_one_slot_out_is_kept() -> None:
    site = Site(limit=16 * MIB)
    held, *others = site.take(2 * MIB, 8)
    for slot in others:
        site.pool.give(slot)
    with pytest.raises(WireError):
        site.pool.take(9 * MIB)
    assert held.segment.memory[held.offset] == 0


def test_segments_that_have_been_idle_are_closed_and_used_ones_are_not() -> None:
    site = Site()
    old, held, fresh = site.take(20 * MIB, 3)
    site.pool.give(old)
    site.now = 50.0
    site.pool.give(fresh)
    site.pool.trim(30.0)
    assert site.pool.reserved == 40 * MIB
    assert site.take(20 * MIB, 1) == [fresh]
    site.pool.give(held)
    site.now = 100.0
    site.pool.trim(30.0)
    assert site.pool.reserved == 20 * MIB


def test_a_slot_after_trimming_comes_from_a_new_segment() -> None:
    site = Site()
    site.pool.give(site.pool.take(MIB))
    site.now = 31.0
    site.pool.trim(30.0)
    slot = site.pool.take(MIB)
    slot.segment.memory[slot.offset] = 1
    assert len(site.created) == 2
