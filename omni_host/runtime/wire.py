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
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Union, cast

import msgpack
import numpy as np

from omni_host.errors import WireError
from omni_host.transports import Transport
from omni_host.transports.tensors import (
    DTYPES,
    NUMPY_DTYPES,
    NUMPY_NAMES,
    TensorHeader,
    byte_view,
    describe,
    is_tensor,
    rebuild,
    receivable,
)

__all__ = ["INLINE_LIMIT", "WIRE_VERSION", "Frame", "PayloadCodec"]

WIRE_VERSION = 1
"""Both ends of a connection must have the same one."""

INLINE_LIMIT = 64 * 1024
"""Tensors up to this many bytes travel in the message, whatever the transport."""

INLINE, SHARED, FRAMED = 1, 2, 3
KINDS = ("numpy", "torch")
NUMPY_CODES = {dtype: DTYPES.index(name) for dtype, name in NUMPY_NAMES.items()}
MAX_DIMENSIONS = 64
START = struct.Struct("<BBH")
LEAVES = frozenset((type(None), bool, int, float, str, bytes))

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
            return _unpack(frames[0], partial(self._tensor, frames, owner))
        except WireError:
            self.discard(frames, owner)
            raise

    def discard(self, frames: Sequence[Frame], owner: str) -> None:
        """Release what the frames share without opening it. Never raises WireError."""
        with contextlib.suppress(WireError):
            _unpack(frames[0], partial(self._release, frames, owner))

    def _tensor(self, frames: Sequence[Frame], owner: str, code: int, data: bytes) -> Any:
        if code == INLINE:
            return _read_inline(data, torch=self._torch)
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
        match _unpack(data, msgpack.ExtType):
            case [int(kind), int(dtype), shape, str(name), handle]:
                header = _header(kind, dtype, shape)
            case _:
                raise WireError("a tensor's header is malformed")
        if name not in self._transports:
            raise WireError(f"a tensor came by {name!r}, which {self.process} has no transport for")
        if code == FRAMED:
            if not isinstance(handle, int) or not 0 < handle < len(frames):
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
        self._frames: list[Frame] = []
        self._handles: list[Any] = []

    def encode(self, value: Any, transport: Transport, name: str, peer: str) -> list[Frame]:
        self._transport, self._name, self._peer = transport, name, peer
        try:
            document = self._packer.pack(value) if _carriable(value) else None
        except (WireError, ValueError, OverflowError, RecursionError) as error:
            self._take_back()
            raise _explain(value, error) from error
        if document is None:
            raise _explain(value, None)
        frames: list[Frame] = [document, *self._frames]
        self._reset()
        return frames

    def _take_back(self) -> None:
        for handle in self._handles:
            self._transport.discard(handle, self._process)
        self._reset()

    def _reset(self) -> None:
        if self._handles:
            self._frames, self._handles = [], []

    def _tensor(self, tensor: Any) -> msgpack.ExtType:
        if type(tensor) is int:  # msgpack asks what to do with one that is too large
            raise OverflowError
        if tensor.nbytes <= INLINE_LIMIT:
            return msgpack.ExtType(INLINE, _inline(tensor))
        header = describe(tensor)
        handle = self._transport.share(tensor, self._peer)
        self._handles.append(handle)
        code, reference = SHARED, handle
        if isinstance(handle, bytes | bytearray | memoryview):
            self._frames.append(cast("Frame", handle))
            code, reference = FRAMED, len(self._frames)
        fields = (KINDS.index(header.kind), DTYPES.index(header.dtype), header.shape)
        return msgpack.ExtType(code, msgpack.packb((*fields, self._name, reference)))


def _inline(tensor: Any) -> bytes:
    if type(tensor) is np.ndarray:
        code = NUMPY_CODES.get(tensor.dtype)
        if code is not None:
            head = _head(tensor.ndim).pack(0, code, tensor.ndim, *tensor.shape)
            return b"".join((head, tensor.data if tensor.flags.c_contiguous else tensor.tobytes()))
    header = describe(tensor)
    ndim = len(header.shape)
    kind, dtype = KINDS.index(header.kind), DTYPES.index(header.dtype)
    head = _head(ndim).pack(kind, dtype, ndim, *header.shape)
    return b"".join((head, byte_view(tensor).data))


def _read_inline(data: bytes, *, torch: bool) -> Any:
    try:
        kind, dtype, ndim = START.unpack_from(data)
        head = _head(ndim)
        shape = head.unpack_from(data)[3:]
        if kind == 0:
            # The copy makes the array writable; the head is a multiple of 16 bytes, so aligned.
            array = np.ndarray(shape, NUMPY_DTYPES[DTYPES[dtype]], bytearray(data), head.size)
            if array.nbytes != len(data) - head.size:
                raise WireError(f"an array of {array.nbytes} bytes arrived in another size")
            return array
        header = receivable(_header(kind, dtype, shape), torch=torch)
        return rebuild(np.frombuffer(bytearray(data), np.uint8, -1, head.size), header)
    except (struct.error, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a tensor's header is malformed: {error}") from error


@cache
def _head(ndim: int) -> struct.Struct:
    """The layout of an `INLINE` head: kind, dtype, ndim, shape, padding."""
    if ndim > MAX_DIMENSIONS:
        raise WireError(f"a tensor has {ndim} dimensions, at most {MAX_DIMENSIONS} can be carried")
    shape = "" if ndim == 0 else f"{ndim}Q"
    return struct.Struct(f"<BBH{shape}{-(4 + 8 * ndim) % 16}x")


def _header(kind: int, dtype: int, shape: Sequence[Any]) -> TensorHeader:
    """Check what came over the wire."""
    if not 0 <= kind < len(KINDS) or not 0 <= dtype < len(DTYPES):
        raise WireError(f"a tensor is of unknown kind {kind} or dtype {dtype}")
    if not isinstance(shape, list | tuple) or len(shape) > MAX_DIMENSIONS:
        raise WireError(f"a tensor has an impossible shape {shape}")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise WireError(f"a tensor has an impossible shape {shape}")
    return TensorHeader(kind=KINDS[kind], dtype=DTYPES[dtype], shape=tuple(shape))


def _unpack(document: Frame, on_extension: Callable[[int, bytes], Any]) -> Any:
    try:
        return msgpack.unpackb(document, ext_hook=on_extension)
    except ValueError as error:  # what msgpack raises is a subclass
        raise WireError(f"a payload is not readable: {error or type(error).__name__}") from error


def _carriable(value: object) -> bool:
    """Whether every type in `value` can be carried; fast, as each payload goes through it."""
    kind = type(value)
    if kind is dict:
        entries: Any = value
        for key, item in entries.items():
            if type(key) is not str or not (type(item) in LEAVES or _carriable(item)):
                return False
        return True
    if kind is list or kind is tuple:
        items: Any = value
        return LEAVES.issuperset(map(type, items)) or all(map(_carriable, items))
    return kind in LEAVES or is_tensor(value)


def _explain(value: Any, error: Exception | None) -> WireError:
    """The error to raise when `value` could not be encoded."""
    try:
        fault = _fault(value)
    except RecursionError:
        fault = None
    if fault is None and isinstance(error, WireError):
        return error
    return fault or WireError(f"the payload is nested too deeply, or holds itself: {error}")


def _fault(value: Any, path: str = "payload") -> WireError | None:
    """What is wrong with `value`, after an attempt to encode it has failed."""
    if type(value) is dict:
        entries = cast("dict[Any, Any]", value)
        for key in entries:
            if type(key) is not str:
                return WireError(f"{path} has a key {key!r} of type {_name(key)}; keys are str")
        items = [(f"{path}.{key}", item) for key, item in entries.items()]
    elif type(value) in (list, tuple):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return _leaf_fault(value, path)
    return next(filter(None, (_fault(item, where) for where, item in items)), None)


def _leaf_fault(value: Any, path: str) -> WireError | None:
    if is_tensor(value):
        try:
            describe(value)
        except WireError as error:
            return WireError(f"{path}: {error.message}", hint=error.hint)
    elif type(value) not in LEAVES:
        return WireError(f"{path} is a {_name(value)}, which cannot be carried")
    elif type(value) is int and not -(2**63) <= value < 2**64:
        return WireError(
            f"{path} is an int of {value.bit_length()} bits, at most 64 can be carried"
        )
    elif type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return WireError(f"{path} is a str that is not valid Unicode: {error}")
    return None


def _name(value: object) -> str:
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
