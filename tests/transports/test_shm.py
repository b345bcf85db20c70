"""Shared memory within one process: slots, tokens, views, limits and settings."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omni_host.errors import ConfigError, WireError
from omni_host.transports import TransportContext
from omni_host.transports.shm import ShmTransport
from omni_host.transports.tensors import describe

Open = Callable[..., ShmTransport]


@pytest.fixture
def transport() -> Iterator[Open]:
    """Makes the transport of a process, and closes it after the test."""
    made: list[ShmTransport] = []

    def make(process: str, **settings: Any) -> ShmTransport:
        context = TransportContext(process=process, run="shmtest", settings=settings)
        made.append(ShmTransport(context))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def a(transport: Open) -> ShmTransport:
    return transport("a")


@pytest.fixture
def b(transport: Open) -> ShmTransport:
    return transport("b")


def _array(value: float = 1.0, length: int = 50_000) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.full(length, value)


def _open(end: ShmTransport, handle: Any, length: int = 50_000) -> Any:
    return end.open(handle, describe(_array(length=length)), "a")


def test_what_is_shared_is_what_is_opened(a: ShmTransport, b: ShmTransport) -> None:
    array = np.arange(50_000.0)
    got = _open(b, a.share(array, "b"))
    array[:] = 0
    assert np.array_equal(got, np.arange(50_000.0))


def test_a_slot_is_free_once_its_array_is_collected(a: ShmTransport, b: ShmTransport) -> None:
    array = _open(b, a.share(_array(), "b"))
    assert not b.releases()
    del array
    tokens = b.releases()
    a.released(tokens["a"])
    assert not a._out
    assert not b.releases()


@pytest.mark.parametrize(
    "derive",
    [
        lambda array: array[5:10],
        lambda array: array.reshape(50, -1).T[3],
        lambda array: array.view(np.uint8)[::7],
        lambda array: np.asarray(memoryview(array)),
        lambda array: np.frombuffer(array, np.float32),
        lambda array: array.view(np.ma.MaskedArray),
        lambda array: np.lib.stride_tricks.as_strided(array, (3,), (8,)),
        lambda array: np.array_split(array, 3)[2],
        memoryview,
        lambda array: array.flat,
    ],
)
def test_any_view_keeps_the_slot(
    a: ShmTransport, b: ShmTransport, derive: Callable[[Any], Any]
) -> None:
    view = derive(_open(b, a.share(_array(), "b")))
    gc.collect()
    assert not b.releases()
    del view
    gc.collect()
    assert list(b.releases()) == ["a"]


def test_a_copy_does_not_keep_the_slot(a: ShmTransport, b: ShmTransport) -> None:
    copy = _open(b, a.share(_array(), "b")) * 2
    assert copy.sum() == 100_000
    assert list(b.releases()) == ["a"]


def test_arrays_may_be_collected_in_any_thread(a: ShmTransport, b: ShmTransport) -> None:
    arrays = [_open(b, a.share(_array(), "b")) for _ in range(64)]
    threads = [
        threading.Thread(target=lambda mine: mine.clear(), args=([arrays.pop() for _ in range(8)],))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a.released(b.releases()["a"])
    assert not a._out


def test_both_ends_may_be_used_by_several_threads(a: ShmTransport, b: ShmTransport) -> None:
    wrong: list[float] = []

    def exchange(value: float) -> None:
        for _ in range(100):
            total = _open(b, a.share(_array(value), "b")).sum()
            for tokens in b.releases().values():
                a.released(tokens)
            if total != value * 50_000:
                wrong.append(total)

    threads = [threading.Thread(target=exchange, args=(float(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a.released(b.releases().get("a", []))
    assert not wrong
    assert not a._out


def test_ten_thousand_tensors_take_one_segment(a: ShmTransport, b: ShmTransport) -> None:
    array = np.zeros(20_000, np.float32)
    header = describe(array)
    names = set()
    for _ in range(10_000):
        handle = a.share(array, "b")
        names.add(handle[2])
        b.open(handle, header, "a")
        a.released(b.releases()["a"])
    assert len(names) == len(b._owners["a"].mapped) == 1


def test_what_is_discarded_is_free_without_being_mapped(a: ShmTransport, b: ShmTransport) -> None:
    b.discard(a.share(_array(), "b"), "a")
    a.released(b.releases()["a"])
    assert not a._out
    assert not b._owners["a"].mapped


def test_what_was_never_sent_is_discarded_by_its_owner(a: ShmTransport) -> None:
    a.discard(a.share(_array(), "b"), "a")
    assert not a._out


def test_tokens_that_are_unknown_or_came_twice_are_ignored(
    a: ShmTransport, b: ShmTransport
) -> None:
    b.discard(a.share(_array(), "b"), "a")
    tokens = b.releases()["a"]
    kept = a.share(_array(), "b")
    a.released([*tokens, *tokens, 5, "text", None, []])
    assert list(a._out) == [kept[-1]]


def test_tokens_of_a_process_mean_nothing_to_its_successor(
    transport: Open, a: ShmTransport, b: ShmTransport
) -> None:
    b.discard(a.share(_array(), "b"), "a")
    successor = transport("a")
    successor.share(_array(), "b")
    successor.released(b.releases()["a"])
    assert len(successor._out) == 1


def test_the_slots_of_a_peer_that_ended_come_back_and_no_others(a: ShmTransport) -> None:
    for peer in "bcb":
        a.share(_array(), peer)
    a.forget("b")
    assert [peer for _, peer in a._out.values()] == ["c"]
    a.forget("b")
    a.forget("nobody")


def test_a_view_stays_valid_when_its_owner_is_forgotten(a: ShmTransport, b: ShmTransport) -> None:
    array = _open(b, a.share(_array(3.0), "b"))
    b.forget("a")
    a.close()
    assert array.sum() == 150_000
    del array
    assert not b.releases()


def test_a_view_outlives_both_ends(transport: Open) -> None:
    a, b = transport("a"), transport("b")
    array = _open(b, a.share(_array(3.0), "b"))
    a.close()
    b.close()
    a.close()
    del a, b
    gc.collect()
    assert array.sum() == 150_000


def test_nothing_can_be_shared_after_closing(a: ShmTransport) -> None:
    a.share(_array(), "b")
    a.close()
    with pytest.raises(WireError, match="shared memory of a is closed"):
        a.share(_array(), "b")


def test_an_exhausted_pool_says_who_holds_it_and_recovers(transport: Open) -> None:
    a = transport("a", limit_bytes=2_000_000)
    handles = [a.share(_array(), "slowpoke") for _ in range(4)]
    with pytest.raises(WireError) as caught:
        a.share(_array(), "b")
    assert "no shared memory is left in a" in caught.value.message
    assert "{'slowpoke': 4}" in caught.value.message
    assert "limit_bytes" in caught.value.hint
    a.released([handles[0][-1]])
    a.share(_array(), "b")


def test_idle_segments_are_given_back_on_both_sides(
    transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("omni_host.transports.shm.time.monotonic", lambda: now)
    a, b = transport("a", idle_s=10), transport("b", idle_s=10)
    handle = a.share(_array(), "b")
    _open(b, handle)
    a.released(b.releases()["a"])
    now += 11
    a.releases()
    b.releases()
    assert a._pool.reserved == 0
    assert not b._owners["a"].mapped
    with pytest.raises(WireError, match="cannot be opened"):
        _open(b, handle)


def test_a_view_that_is_kept_for_long_keeps_its_memory(
    transport: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("omni_host.transports.shm.time.monotonic", lambda: now)
    a, b = transport("a", idle_s=10), transport("b", idle_s=10)
    kept = _open(b, a.share(_array(3.0), "b"))
    for _ in range(5):
        now += 11
        a.releases()
        b.releases()
        _open(b, a.share(_array(4.0), "b"))
        a.released(b.releases()["a"])
    assert kept.sum() == 150_000
    assert len(a._out) == 1


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {"pid": 1},
        [1, 2, "name", 4096, 0],
        [1, 2, 3, 4096, 0, 1],
        [1.0, 2, "name", 4096, 0, 1],
        [-1, 2, "name", 1 << 30, 0, 1],
        [2**63, 2**63, "name", 1 << 30, 0, 1],
        [1, -1, "na/me", 1 << 30, 0, 1],
        [1, -1, "nul\0", 1 << 30, 0, 1],
        [1, -1, "x" * 5000, 1 << 30, 0, 1],
        [1, 2, "name", 1 << 70, 0, 1],
    ],
)
def test_a_broken_handle_is_a_wire_error(b: ShmTransport, broken: Any) -> None:
    with pytest.raises(WireError):
        _open(b, broken)


@pytest.mark.parametrize("offset", [-8, 1 << 40, 16 * 1024 * 1024 - 8])
def test_a_place_outside_of_the_segment_is_a_wire_error(
    a: ShmTransport, b: ShmTransport, offset: int
) -> None:
    handle = a.share(_array(), "b")
    handle[4] = offset
    with pytest.raises(WireError, match="outside"):
        _open(b, handle)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"limit": 1}, "transports.shm.limit"),
        ({"limit_bytes": 0}, "transports.shm.limit_bytes"),
        ({"limit_bytes": "1"}, "transports.shm.limit_bytes"),
        ({"idle_s": -1.0}, "transports.shm.idle_s"),
        ({"segments": "paper"}, "transports.shm.segments"),
    ],
)
def test_a_wrong_setting_is_named(transport: Open, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transport("a", **settings)
    assert caught.value.field == field


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_cannot_share(a: ShmTransport) -> None:
    child = os.fork()
    if child == 0:
        try:
            a.share(_array(), "b")
        except WireError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_closing_gives_every_descriptor_back(transport: Open) -> None:
    before = _descriptors()
    a, b = transport("a"), transport("b")
    for length in (50_000, 500_000, 5_000_000):
        _open(b, a.share(_array(length=length), "b"), length)
    assert _descriptors() > before
    a.close()
    b.close()
    assert _descriptors() == before


def _descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))
