"""The messages between host and workers, and how a batch of them is packed.

A message is a tuple of plain data whose first element is its kind; what follows is
listed beside each kind. `number` is the coordinator's number of a request: they rise,
so that a worker can tell a message that came too early from one that came too late.
`frames` are what `PayloadCodec` made of a value.

A batch is one msgpack array: the sender's endpoint, then its messages. Messages are
packed when they are posted, so nobody's buffer is read later than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack

__all__ = ["Message", "pack_batch", "pack_message", "unpack_batch"]

Message = tuple[Any, ...]

# Between a worker and the host: the life of a process.
PROGRESS: Final = 1  # stage, what, fraction | None
READY: Final = 2  # stage
START_FAILED: Final = 3  # error data
PEER: Final = 4  # process, endpoint, address
FORGET: Final = 5  # process, endpoint
PING: Final = 6
PONG: Final = 7  # ((stage, inside, queued), ...)
STOP: Final = 8

# Requests.
OPEN: Final = 9  # number, id, task, tags, frames | None (the request's own payload)
PAYLOAD: Final = 10  # number, target, source, frames
CHUNK: Final = 11  # number, target, source, frames
END: Final = 12  # number, target, source
CREDIT: Final = 13  # number, source, target, count; the target reads no more if negative
RESULT: Final = 14  # number, stage, frames: a chunk for the client
FINISHED: Final = 15  # number, stage, queue_s, busy_s, batch size
FAILED: Final = 16  # number, stage, error data
DROPPED: Final = 17  # number, stage: it has let go of an aborted request
ABORT: Final = 18  # number
RELEASED: Final = 19  # transport, tokens

CLOSED: Final = -1
"""The count of a CREDIT by which a stage says that it reads no more of a stream."""

_ARRAY_32 = b"\xdd"
_packer = msgpack.Packer()
_unpackb: Callable[..., tuple[Any, ...]] = msgpack.unpackb


def pack_message(message: Message) -> bytes:
    """Raises TypeError or ValueError for what msgpack cannot carry."""
    return _packer.pack(message)


def pack_batch(sender: bytes, messages: Sequence[bytes]) -> bytes:
    """One array of `sender` (packed) and `messages` (packed)."""
    count = (len(messages) + 1).to_bytes(4, "big")
    return b"".join((_ARRAY_32, count, sender, *messages))


def unpack_batch(data: bytes) -> tuple[Any, ...]:
    """The sender and its messages. Raises ValueError for anything malformed."""
    return _unpackb(data, use_list=False)
