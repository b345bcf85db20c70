"""A process' mailbox: one inbound socket, one outbound socket for each peer.

Sockets belong to the event loop's thread alone. The inbound one is read through its
file descriptor (`zmq.asyncio` costs several times as much a message); what is posted
during one turn of the loop leaves as one batch a peer at the end of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import zmq

from omni_host.runtime.messages import Message, pack_batch, pack_message, unpack_batch

__all__ = ["Mailbox"]

_BATCHES_A_TURN = 64
"""How many batches are read before others get their turn of the loop."""

_log = logging.getLogger(__name__)


class Mailbox:
    """Reads what arrives at `address`, and posts to peers by the name of their endpoint.

    `receive(sender, message)` is called for each message, on the loop.
    """

    def __init__(
        self, endpoint: str, address: str, receive: Callable[[str, Message], None]
    ) -> None:
        self.endpoint = endpoint
        self.before_flush: Callable[[], None] | None = None
        self._address = address
        self._receive = receive
        self._sender = pack_message(endpoint)  # type: ignore[arg-type]
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._inbound = self._context.socket(zmq.PULL)
        self._peers: dict[str, zmq.Socket[bytes]] = {}
        self._outbox: dict[str, list[bytes]] = {}
        self._forgotten: set[str] = set()
        self._flushing = False
        self._closed = False
        self._reading = False

    def open(self) -> None:
        """Start to read. Raises zmq.ZMQError if the address cannot be bound."""
        self._inbound.set_hwm(0)
        self._inbound.bind(self._address)
        self._loop.add_reader(self._inbound.fileno(), self._drain)
        self._reading = True
        self._loop.call_soon(self._drain)

    def connect(self, peer: str, address: str) -> None:
        """Messages for `peer` go to `address` from now on; it need not be there yet."""
        if peer in self._peers or peer in self._forgotten:
            return
        socket = self._context.socket(zmq.PUSH)
        socket.set_hwm(0)
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.connect(address)
        self._peers[peer] = socket

    def connected(self, peer: str) -> bool:
        """Whether messages for `peer` go anywhere."""
        return peer in self._peers

    def forget(self, peer: str) -> None:
        """`peer` has ended: drop what is meant for it and all that still comes from it."""
        self._forgotten.add(peer)
        self._outbox.pop(peer, None)
        socket = self._peers.pop(peer, None)
        if socket is not None:
            socket.close(linger=0)

    def post(self, peer: str, message: Message) -> None:
        """Send at the end of this turn of the loop. Dropped if `peer` is not connected."""
        if peer not in self._peers:
            return
        packed = pack_message(message)
        waiting = self._outbox.get(peer)
        if waiting is None:
            self._outbox[peer] = [packed]
            self.flush_soon()
        else:
            waiting.append(packed)

    def flush_soon(self) -> None:
        """Flush at the end of this turn, also if nothing was posted."""
        if not self._flushing and not self._closed:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def close(self, linger_s: float = 0.0) -> None:
        """Send what was posted, within `linger_s`, and close every socket."""
        if self._closed:
            return
        if linger_s:
            self._flush()
        self._closed = True
        if self._reading:
            self._loop.remove_reader(self._inbound.fileno())
        self._inbound.close(linger=0)
        for socket in self._peers.values():
            socket.close(linger=int(linger_s * 1000))
        self._peers.clear()
        self._context.term()

    def _flush(self) -> None:
        if self._closed:
            return
        if self.before_flush is not None:
            self.before_flush()
        self._flushing = False
        outbox, self._outbox = self._outbox, {}
        for peer, messages in outbox.items():
            socket = self._peers.get(peer)
            if socket is not None:
                socket.send(pack_batch(self._sender, messages), zmq.NOBLOCK)

    def _drain(self) -> None:
        # The descriptor is edge-triggered: it has to be read until it is empty, or it
        # will not wake the loop again.
        empty = False
        try:
            empty = self._read_some()
        finally:
            if not empty:
                self._loop.call_soon(self._drain)

    def _read_some(self) -> bool:
        """Whether nothing is left to read."""
        for _ in range(_BATCHES_A_TURN):
            if self._closed:
                return True
            try:
                data = self._inbound.recv(zmq.NOBLOCK)
            except zmq.Again:
                return True
            self._deliver(data)
        return False

    def _deliver(self, data: bytes) -> None:
        try:
            sender, *messages = unpack_batch(data)
        except (TypeError, ValueError):
            _log.exception("%s: a malformed message was dropped", self.endpoint)
            return
        if sender in self._forgotten:
            return
        for message in messages:
            try:
                self._receive(sender, message)
            except Exception:  # noqa: BLE001 - the process' border: the other messages must arrive
                _log.exception("%s: a message of %s was not taken", self.endpoint, sender)
