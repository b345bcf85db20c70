"""Tensors as bytes: numpy arrays, and torch tensors where torch is loaded.

Bytes are little-endian and in C order. Nothing here imports torch, except
`receivable` when a torch tensor arrives from another process.
"""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from omni_host.errors import WireError

__all__ = [
    "DTYPES",
    "TensorHeader",
    "byte_view",
    "copy_into",
    "describe",
    "is_tensor",
    "rebuild",
    "receivable",
]

Kind = Literal["numpy", "torch"]
Bytes = NDArray[np.uint8]

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool",
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
DTYPES = (*NUMPY_DTYPES, "bfloat16")
"""What can be carried. The place in this tuple goes over the wire: append only."""

ITEM_SIZES = {name: dtype.itemsize for name, dtype in NUMPY_DTYPES.items()} | {"bfloat16": 2}
NUMPY_NAMES = {dtype: name for name, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """What a tensor is, without its values: `dtype` is one of `DTYPES`."""

    kind: Kind
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEM_SIZES[self.dtype]


def is_tensor(value: object) -> bool:
    """Whether `value` is a numpy array or, where torch is loaded, a torch tensor."""
    return isinstance(value, np.ndarray) or _is_torch(value)


def describe(tensor: Any) -> TensorHeader:
    """The header of a tensor. Raises WireError if tensors of its kind cannot be carried."""
    if isinstance(tensor, np.ndarray):
        array = cast("NDArray[Any]", tensor)
        name = NUMPY_NAMES.get(array.dtype) or NUMPY_NAMES.get(array.dtype.newbyteorder("="))
        if name is None or isinstance(array, np.ma.MaskedArray):
            raise WireError(f"a {type(array).__name__} of dtype {array.dtype} cannot be carried")
        return TensorHeader(kind="numpy", dtype=name, shape=array.shape)
    name = str(tensor.dtype).removeprefix("torch.")
    plain = str(tensor.layout) == "torch.strided" and not (tensor.is_meta or tensor.is_nested)
    if name not in ITEM_SIZES or not plain:
        nested = "nested, " if tensor.is_nested else ""
        what = f"{nested}{tensor.dtype}, {tensor.layout}, device {tensor.device}"
        raise WireError(f"a torch tensor ({what}) cannot be carried")
    return TensorHeader(kind="torch", dtype=name, shape=tuple(tensor.shape))


def byte_view(tensor: Any) -> Bytes:
    """The bytes [nbytes] of a tensor, without a copy where its memory allows that.

    Raises WireError if torch cannot bring them to the CPU.
    """
    if isinstance(tensor, np.ndarray):
        array = cast("NDArray[Any]", tensor)
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        return native.reshape(-1).view(np.uint8)
    torch = sys.modules["torch"]
    try:
        plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    except RuntimeError as error:
        raise WireError(f"a torch tensor on {tensor.device} cannot be copied: {error}") from error
    # A dimension of size 0 or 1 may have any stride, which `view` would refuse.
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy()


def copy_into(target: Bytes, tensor: Any, header: TensorHeader) -> None:
    """Copy a tensor of any strides or device into `target` [nbytes], in one pass.

    Raises WireError if torch cannot bring it to the CPU.
    """
    if header.kind == "numpy":
        view = target.view(NUMPY_DTYPES[header.dtype]).reshape(header.shape)
        np.copyto(view, cast("NDArray[Any]", tensor))
        return
    try:
        _torch_view(sys.modules["torch"], target, header).copy_(tensor.detach())
    except RuntimeError as error:
        raise WireError(f"a torch tensor on {tensor.device} cannot be copied: {error}") from error


def receivable(header: TensorHeader, *, torch: bool) -> TensorHeader:
    """The header as this process can rebuild it: numpy instead of torch where torch cannot
    be imported, or must not be (`torch=False`).

    Raises WireError if there is no such numpy dtype.
    """
    if header.kind == "numpy" or (torch and _import_torch() is not None):
        return header
    if header.dtype not in NUMPY_DTYPES:
        raise WireError(
            f"a torch tensor of dtype {header.dtype} arrived in a process without torch",
            hint="send it as float32",
        )
    return TensorHeader(kind="numpy", dtype=header.dtype, shape=header.shape)


def rebuild(source: Bytes, header: TensorHeader) -> Any:
    """The tensor whose bytes are `source`: a view, writable if `source` is.

    Raises WireError if they are not that many, or there can be no tensor of that shape.
    """
    if source.size != header.nbytes:
        raise WireError(f"a tensor of {header.nbytes} bytes arrived as {source.size} bytes")
    try:
        if header.kind == "torch":
            return _torch_view(_import_torch(), source, header)
        return source.view(NUMPY_DTYPES[header.dtype]).reshape(header.shape)
    except (ValueError, OverflowError, RuntimeError, TypeError) as error:
        raise WireError(f"a tensor has an impossible shape {header.shape}: {error}") from error


def _torch_view(torch: Any, source: Bytes, header: TensorHeader) -> Any:
    flat = torch.from_numpy(source).view(getattr(torch, header.dtype))
    return flat.reshape(header.shape)


def _is_torch(value: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@cache
def _import_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None
