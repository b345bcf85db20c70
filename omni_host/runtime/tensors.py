"""Tensors as msgpack extensions: the headers of `omni_host.runtime.wire`."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Literal

import numpy as np

from omni_host.errors import WireError
from omni_host.transports.tensors import (
    DTYPES,
    NUMPY_DTYPES,
    NUMPY_NAMES,
    TensorHeader,
    byte_view,
    describe,
    rebuild,
    receivable,
)

__all__ = ["header_fields", "pack_inline", "read_header", "read_inline"]

KINDS: tuple[Literal["numpy"], Literal["torch"]] = ("numpy", "torch")
NUMPY_CODES = {dtype: DTYPES.index(name) for dtype, name in NUMPY_NAMES.items()}
MAX_DIMENSIONS = 64
START = struct.Struct("<BBH")


def header_fields(header: TensorHeader) -> tuple[int, int, tuple[int, ...]]:
    """A header as plain data; `read_header` is the inverse."""
    return KINDS.index(header.kind), DTYPES.index(header.dtype), header.shape


def read_header(kind: Any, dtype: Any, shape: Any) -> TensorHeader:
    """Check a header that came over the wire. Raises WireError."""
    if type(kind) is not int or type(dtype) is not int:
        raise WireError(f"a tensor's kind {kind!r} and dtype {dtype!r} are not numbers")
    if not (0 <= kind < len(KINDS) and 0 <= dtype < len(DTYPES)):
        raise WireError(f"a tensor is of unknown kind {kind!r} or dtype {dtype!r}")
    if not _is_shape(shape):
        raise WireError(f"a tensor has an impossible shape {shape!r}")
    return TensorHeader(kind=KINDS[kind], dtype=DTYPES[dtype], shape=tuple(shape))


def pack_inline(tensor: Any, header: TensorHeader | None) -> bytes:
    """A tensor with its values. `header` may be None for a numpy array, which is faster then.

    Raises WireError if its dtype or kind cannot be carried.
    """
    if header is None:
        code = NUMPY_CODES.get(tensor.dtype)
        if code is not None:
            head = _head(tensor.ndim).pack(0, code, tensor.ndim, *tensor.shape)
            return b"".join((head, tensor.data if tensor.flags.c_contiguous else tensor.tobytes()))
        header = describe(tensor)
    kind, dtype, shape = header_fields(header)
    head = _head(len(shape)).pack(kind, dtype, len(shape), *shape)
    return b"".join((head, byte_view(tensor).data))


def read_inline(data: bytes, *, torch: bool) -> Any:
    """The tensor, writable, with memory of its own. Raises WireError."""
    try:
        kind, dtype, ndim = START.unpack_from(data)
        head = _head(ndim)
        shape = head.unpack_from(data)[3:]
        # The copy makes it writable; a head is a multiple of 16 bytes, so it is aligned.
        memory, start = bytearray(data), head.size
        if kind != 0:
            header = receivable(read_header(kind, dtype, shape), torch=torch)
            return rebuild(np.frombuffer(memory, np.uint8, -1, start), header)
        array = np.ndarray(shape, NUMPY_DTYPES[DTYPES[dtype]], memory, start)
    except (struct.error, LookupError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a tensor's header is malformed: {error}") from error
    if array.nbytes != len(data) - start:
        raise WireError(f"{len(data) - start} bytes arrived for a tensor of {array.nbytes}")
    return array


def _is_shape(shape: Any) -> bool:
    if type(shape) not in (list, tuple) or len(shape) > MAX_DIMENSIONS:
        return False
    return all(type(n) is int and n >= 0 for n in shape)


@cache
def _head(ndim: int) -> struct.Struct:
    """The layout of a head: kind, dtype, number of dimensions, shape, padding."""
    if ndim > MAX_DIMENSIONS:
        raise WireError(f"a tensor of {ndim} dimensions cannot be carried, only {MAX_DIMENSIONS}")
    shape = f"{ndim}Q" if ndim else ""
    return struct.Struct(f"<BBH{shape}{-(4 + 8 * ndim) % 16}x")
