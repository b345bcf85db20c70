"""What a payload looks like between two processes.

A payload is None, bool, int, float, str, bytes, a list, a tuple (which arrives as a
list), a dict with str keys, or a tensor (`omni_host.transports.tensors`), nested at will.
It becomes a msgpack document, the first frame. Tensors are msgpack extensions in it:

- `INLINE`, up to 64 KiB: kind, dtype, number of dimensions (u8, u8, u16), shape (u64
  each), zeros up to a multiple of 16 bytes, then the values;
- `SHARED`: msgpack of `[kind, dtype, shape, transport, handle]`;
- `FRAMED`: the same, the handle being the number of the frame that is the handle.

All numbers are little-endian. Nothing is ever pickled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Union, cast

import msgpack
import numpy as np

from omni_host.errors import WireError
from omni_host.runtime.payload_faults import explain, is_carriable
from omni_host.runtime.tensors import header_fields, pack_inline, read_header, read_inline
from omni_host.transports import Transport
from omni_host.transports.tensors import TensorHeader, describe, receivable

__all__ = ["INLINE_LIMIT", "WIRE_VERSION", "Frame", "PayloadCodec"]

WIRE_VERSION = 1
"""Both ends of a connection must have the same one."""

INLINE_LIMIT = 64 * 1024
"""Tensors up to this many bytes travel in the message, whatever the transport."""

INLINE, SHARED, FRAMED = 1, 2, 3

Frame = Union[bytes, bytearray, "memoryview[int]"]


class PayloadCodec:
    """Encodes and decodes payloads in one process. May be used by any thread.

    Args:
        process: this process' name, which its transports know it by.
        transports: by the name that edges use.
        torch: False where torch must not be imported; torch tensors arrive as numpy then.
    """

    def __init__(
        self, process: str, transports: Mapping[str, Transport], *, torch: bool = True
    ) -> None:
        self.process = process
        self._transports = transports
        self._torch = torch
        self._idle: list[_Encoder] = []

    def encode(self, value: Any, transport: str, peer: str) -> list[Frame]:
        """The frames that carry `value` to `peer`.

        Tensors above `INLINE_LIMIT` go through `transport`. A frame may be the tensor's own
        memory: send it before the tensor changes. Frames that will not be sent after all
        must be discarded, with this process as their owner.

        Raises WireError for what cannot be carried, with its type and its path in `value`;
        nothing stays shared then.
        """
        if transport not in self._transports:
            raise WireError(f"there is no transport {transport!r} in process {self.process}")
        try:
            encoder = self._idle.pop()
        except IndexError:
            encoder = _Encoder(self.process)
        frames = encoder.encode(value, self._transports[transport], transport, peer)
        self._idle.append(encoder)
        return frames

    def decode(self, frames: Sequence[Frame], owner: str) -> Any:
        """The value that `owner` encoded. Its tensors are writable and nobody else's.

        A tensor that came through a transport holds on to shared memory until it and all
        its views are collected. Raises WireError for frames that are not a payload; whatever
        they shared is released then.
        """
        try:
            return _unpack(frames, partial(self._tensor, frames, owner))
        except WireError:
            self.discard(frames, owner)
            raise

    def discard(self, frames: Sequence[Frame], owner: str) -> None:
        """Release what the frames share without opening it. Never raises WireError."""
        with contextlib.suppress(WireError):
            _unpack(frames, partial(self._release, frames, owner))

    def _tensor(self, frames: Sequence[Frame], owner: str, code: int, data: bytes) -> Any:
        if code == INLINE:
            return read_inline(data, torch=self._torch)
        header, transport, handle = self._shared(frames, code, data)
        return transport.open(handle, receivable(header, torch=self._torch), owner)

    def _release(self, frames: Sequence[Frame], owner: str, code: int, data: bytes) -> None:
        if code != INLINE:
            with contextlib.suppress(WireError):
                _, transport, handle = self._shared(frames, code, data)
                transport.discard(handle, owner)

    def _shared(
        self, frames: Sequence[Frame], code: int, data: bytes
    ) -> tuple[TensorHeader, Transport, Any]:
        if code not in (SHARED, FRAMED):
            raise WireError(f"a payload holds an extension of unknown type {code}")
        fields = _unpack((data,), msgpack.ExtType)
        if not isinstance(fields, list) or len(cast("list[Any]", fields)) != 5:
            raise WireError("a tensor's header is malformed")
        kind, dtype, shape, name, handle = cast("list[Any]", fields)
        header = read_header(kind, dtype, shape)
        if not isinstance(name, str) or name not in self._transports:
            raise WireError(f"a tensor came by {name!r}, which {self.process} has no transport for")
        if code == FRAMED:
            if type(handle) is not int or not 0 < handle < len(frames):
                raise WireError(f"a tensor's frame {handle!r} is not in the message")
            handle = frames[handle]
        return header, self._transports[name], handle


class _Encoder:
    """A packer and what it gathers beside the document, reused from payload to payload."""

    _transport: Transport
    _name: str
    _peer: str

    def __init__(self, process: str) -> None:
        self._process = process
        self._packer = msgpack.Packer(default=self._tensor)
        self._handles: list[Any] = []
        self._frames: list[Frame] = []

    def encode(self, value: Any, transport: Transport, name: str, peer: str) -> list[Frame]:
        self._transport, self._name, self._peer = transport, name, peer
        try:
            document = self._packer.pack(value) if is_carriable(value) else None
        except (WireError, ValueError, OverflowError, RecursionError) as error:
            for handle in self._handles:
                transport.discard(handle, self._process)
            raise explain(value, error) from error
        if document is None:
            raise explain(value, None)
        frames: list[Frame] = [document, *self._frames]
        if self._handles:
            self._handles, self._frames = [], []
        return frames

    def _tensor(self, tensor: Any) -> msgpack.ExtType:
        if type(tensor) is int:  # msgpack asks what to do with one that is too large
            raise OverflowError
        header = None if type(tensor) is np.ndarray else describe(tensor)
        if (header or tensor).nbytes <= INLINE_LIMIT:
            return msgpack.ExtType(INLINE, pack_inline(tensor, header))
        header = header or describe(tensor)
        handle = self._transport.share(tensor, self._peer)
        self._handles.append(handle)
        code, reference = SHARED, handle
        if isinstance(handle, bytes | bytearray | memoryview):
            self._frames.append(cast("Frame", handle))
            code, reference = FRAMED, len(self._frames)
        return msgpack.ExtType(code, msgpack.packb((*header_fields(header), self._name, reference)))


def _unpack(frames: Sequence[Frame], on_extension: Callable[[int, bytes], Any]) -> Any:
    if not frames:
        raise WireError("a message came without a payload")
    try:
        return msgpack.unpackb(frames[0], ext_hook=on_extension)
    except ValueError as error:  # whatever msgpack raises is one
        raise WireError(f"a payload is not readable: {error or type(error).__name__}") from error
