"""The tree of cached pages."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from omni_host.engines.torch_engine.prefix_cache import PrefixCache

SIZE = 2


def keys(text: str, first: float = 0.0) -> list[tuple[float, ...]]:
    return [(ord(letter), first + at) for at, letter in enumerate(text)]


def cached(cache: PrefixCache, text: str, pages: list[int]) -> list:
    """Insert a prompt as a request that computed all of it, and let it go."""
    held = cache.match(keys(text), len(text), ())
    cache.hold(held)
    nodes, _ = cache.insert(keys(text), held, [*(n.page for n in held), *pages], {})
    cache.release([*held, *nodes])
    return [*held, *nodes]


def test_the_longest_common_prefix_in_whole_pages_is_found() -> None:
    cache = PrefixCache(SIZE)
    cached(cache, "abcdef", [10, 11, 12])
    cached(cache, "abxy", [13])
    assert [n.page for n in cache.match(keys("abcdzz"), 6, ())] == [10, 11]
    assert [n.page for n in cache.match(keys("abxyef"), 6, ())] == [10, 13]
    assert [n.page for n in cache.match(keys("abcdef"), 5, ())] == [10, 11], "within the limit"
    assert cache.match(keys("bcdef"), 5, ()) == []
    assert cache.idle == 4


def test_equal_rows_at_other_positions_do_not_match() -> None:
    cache = PrefixCache(SIZE)
    cached(cache, "abcd", [10, 11])
    assert cache.match(keys("abcd", first=1.0), 4, ()) == []
    assert cache.match(keys("cd"), 2, ()) == []


def test_the_page_that_was_unused_for_longest_goes_first() -> None:
    cache = PrefixCache(SIZE)
    cached(cache, "abcd", [10, 11])
    cached(cache, "efgh", [12, 13])
    cached(cache, "abcd", [])
    assert [cache.evict() for _ in range(4)] == [13, 12, 11, 10]
    assert cache.idle == 0
    assert cache.match(keys("abcd"), 4, ()) == []


def test_held_pages_and_those_above_them_are_kept() -> None:
    cache = PrefixCache(SIZE)
    cached(cache, "abcd", [10, 11])
    held = cache.match(keys("ab"), 2, ())
    cache.hold(held)
    assert cache.idle == 1
    assert cache.evict() == 11
    assert cache.idle == 0
    cache.release(held)
    assert cache.evict() == 10


def test_a_page_that_is_cached_already_stays_its_owners() -> None:
    cache = PrefixCache(SIZE)
    first, given = cache.insert(keys("abcd"), [], [10, 11], {})
    assert given == {10, 11}
    second, given = cache.insert(keys("abef"), [], [20, 21], {})
    assert given == {21}
    assert [n.page for n in second] == [10, 21]
    cache.release(first)
    cache.release(second)
    assert cache.idle == 3


def test_pages_with_wanted_rows_need_their_states() -> None:
    cache = PrefixCache(SIZE)
    nodes, _ = cache.insert(keys("abcdef"), [], [10, 11, 12], {1: {0: "states"}})
    cache.release(nodes)
    found = [len(cache.match(keys("abcdef"), 6, wanted)) for wanted in ((), (2,), (5,), (0, 2))]
    assert found == [3, 3, 2, 0]


def test_offers_do_not_pile_up() -> None:
    cache = PrefixCache(SIZE)
    for _ in range(2000):
        cached(cache, "abcd", [10, 11])
    assert len(cache._evictable) < 100
    assert cache.idle == 2
