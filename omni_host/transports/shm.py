"""Shared memory between the processes of one machine: one copy in, a view out.

The sender copies a tensor into a slot of its pool and sends where that is. The
receiver maps the segment, once, and builds the tensor upon it. When the last view
of the tensor is collected, the slot's token goes back with whatever message the
receiver sends next, and the slot is free.
"""

from __future__ import annotations

import itertools
import mmap
import os
import secrets
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from omni_host.errors import ConfigError, WireError
from omni_host.transports import TransportContext
from omni_host.transports.pool import Slot, SlotPool
from omni_host.transports.segments import Address, Backing, Segment, attach, best_backing, unlink
from omni_host.transports.tensors import TensorHeader, copy_into, describe, rebuild

__all__ = ["ShmTransport"]


SETTINGS = "limit_bytes (an int), idle_s (seconds) and segments (auto, memfd or named) can be set"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """`transports.shm.*` of the configuration.

    Attributes:
        limit_bytes: of all segments that one process owns.
        idle_s: for how long a segment is kept that nothing uses.
        segments: `memfd`, `named`, or `auto` for what the system offers.
    """

    limit_bytes: int = 2 * 1024**3
    idle_s: float = 30.0
    segments: Backing | Literal["auto"] = "auto"


class _Handle(NamedTuple):
    """What goes over the wire: a segment's address, the place in it, and the slot's token."""

    pid: int
    fd: int
    name: str
    size: int
    offset: int
    token: int

    @property
    def address(self) -> Address:
        return Address(pid=self.pid, fd=self.fd, name=self.name, size=self.size)


HANDLE_TYPES = (int, int, str, int, int, int)


@dataclass(slots=True)
class _Mapped:
    """A peer's segment, mapped; views hold on to `memory` themselves."""

    memory: mmap.mmap
    opened_at: float


@dataclass(slots=True)
class _Owner:
    """What this process knows of a peer whose tensors it opens.

    Views append to `freed` when they are collected, in any thread and at any moment. A
    deque takes that without a lock, which the thread might be holding already.
    """

    mapped: dict[str, _Mapped] = field(default_factory=dict[str, _Mapped])
    named: set[str] = field(default_factory=set[str])
    freed: deque[int] = field(default_factory=deque[int])


class ShmTransport:
    """A handle is a list with the fields of `_Handle`."""

    def __init__(self, context: TransportContext) -> None:
        settings = _read(context.settings)
        self._process = context.process
        self._pid = os.getpid()
        self._idle_s = settings.idle_s
        self._backing: Backing = (
            best_backing() if settings.segments == "auto" else settings.segments
        )
        prefix = f"omni-{context.run[:8]}-{secrets.token_hex(4)}"
        self._names = (f"{prefix}-{number:x}" for number in itertools.count())
        self._pool = SlotPool(self._create, settings.limit_bytes, time.monotonic)
        # Tokens of an earlier process of the same name mean nothing here.
        self._tokens = itertools.count(secrets.randbits(31) << 32)
        self._out: dict[int, tuple[Slot, str]] = {}
        self._owners: dict[str, _Owner] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._tidy_at = time.monotonic() + settings.idle_s

    def share(self, array: Any, peer: str) -> list[Any]:
        """Copy `array` into a slot. Raises WireError when the pool is exhausted."""
        header = describe(array)
        if os.getpid() != self._pid:
            raise WireError(f"{self._process} cannot share memory from a forked child")
        slot = self._take(header.nbytes)
        target = np.ndarray((header.nbytes,), np.uint8, slot.segment.memory, slot.offset)
        try:
            copy_into(target, array, header)
        except WireError:
            self._give([slot])
            raise
        token = next(self._tokens)
        self._out[token] = (slot, peer)
        address = slot.segment.address
        return [address.pid, address.fd, address.name, address.size, slot.offset, token]

    def open(self, handle: Any, header: TensorHeader, owner: str) -> Any:
        """A view of the slot. Raises WireError if its owner has gone."""
        place = _parse(handle)
        if not 0 <= place.offset <= place.size - header.nbytes:
            raise WireError(f"a tensor of {header.nbytes} bytes is outside of its shared memory")
        known = self._owners.setdefault(owner, _Owner())
        memory = self._map(known, place)
        array = np.ndarray((header.nbytes,), np.uint8, memory, place.offset)
        # Every view of `array` holds on to it, since what it is itself a view of is no array.
        weakref.finalize(array, known.freed.append, place.token).atexit = False
        return rebuild(array, header)

    def discard(self, handle: Any, owner: str) -> None:
        token = _parse(handle).token
        if owner == self._process:
            self.released([token])
        else:
            self._owners.setdefault(owner, _Owner()).freed.append(token)

    def releases(self) -> Mapping[str, list[int]]:
        """Call it now and then even when there is no message to send: segments that have
        been idle are given back here."""
        self._tidy()
        found = [(name, owner.freed) for name, owner in self._known() if owner.freed]
        with self._lock:
            return {name: _drain(freed) for name, freed in found}

    def released(self, tokens: Iterable[Any]) -> None:
        out = [self._out.pop(token, None) for token in tokens if type(token) is int]
        self._give([taken[0] for taken in out if taken is not None])

    def forget(self, peer: str) -> None:
        self.released([token for token, (_, holder) in list(self._out.items()) if holder == peer])
        owner = self._owners.pop(peer, None)
        for name in owner.named if owner else ():
            unlink(name)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._out.clear()
            self._owners.clear()
            self._pool.close()

    def _create(self, size: int) -> Segment:
        return Segment(next(self._names), size, self._backing)

    def _take(self, nbytes: int) -> Slot:
        self._tidy()
        with self._lock:
            if self._closed:
                raise WireError(f"shared memory of {self._process} is closed")
            try:
                return self._pool.take(nbytes)
            except WireError as error:
                held = Counter(peer for _, peer in self._out.values())
                raise WireError(
                    f"no shared memory is left in {self._process}: {error.message}; "
                    f"tensors held: {dict(held)}",
                    hint="raise transports.shm.limit_bytes, or lower the credits of the edge",
                ) from error

    def _give(self, slots: list[Slot]) -> None:
        with self._lock:
            for slot in slots:
                self._pool.give(slot)

    def _map(self, owner: _Owner, place: _Handle) -> mmap.mmap:
        mapped = owner.mapped.get(place.name)
        if mapped is None:
            mapped = owner.mapped[place.name] = _Mapped(attach(place.address), 0.0)
            if place.fd < 0:
                owner.named.add(place.name)
        mapped.opened_at = time.monotonic()
        return mapped.memory

    def _known(self) -> list[tuple[str, _Owner]]:
        return list(self._owners.items())

    def _tidy(self) -> None:
        """Give back, on both sides, what has not been used for a while."""
        now = time.monotonic()
        if now < self._tidy_at:
            return
        self._tidy_at = now + self._idle_s / 4
        with self._lock:
            self._pool.trim(self._idle_s)
        for _, owner in self._known():
            for name, mapped in list(owner.mapped.items()):
                if mapped.opened_at <= now - self._idle_s:
                    owner.mapped.pop(name, None)


def _drain(freed: deque[int]) -> list[int]:
    return [freed.popleft() for _ in range(len(freed))]


def _parse(handle: Any) -> _Handle:
    if isinstance(handle, list):
        fields = cast("list[Any]", handle)
        if tuple(map(type, fields)) == HANDLE_TYPES:
            return _Handle(*fields)
    raise WireError(f"{handle!r} is not a handle of shared memory")


def _read(settings: Mapping[str, Any]) -> _Settings:
    for key, value in settings.items():
        match key, value:
            case ("limit_bytes", int()) | ("idle_s", int() | float()) if value > 0:
                continue
            case ("segments", "auto" | "memfd" | "named"):
                continue
            case _:
                where = f"transports.shm.{key}"
                raise ConfigError(f"{where} cannot be {value!r}", hint=SETTINGS, field=where)
    return _Settings(**settings)
