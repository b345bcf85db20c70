"""Tensors as bytes: headers, views and copies."""

from __future__ import annotations

import numpy as np
import pytest

from omni_host.errors import WireError
from omni_host.transports.tensors import (
    DTYPES,
    TensorHeader,
    byte_view,
    copy_into,
    describe,
    is_tensor,
    rebuild,
    receivable,
)


def test_a_header_knows_its_bytes() -> None:
    header = describe(np.zeros((3, 4), np.float16))
    assert header == TensorHeader(kind="numpy", dtype="float16", shape=(3, 4))
    assert header.nbytes == 24
    assert describe(np.zeros(())).nbytes == 8
    assert describe(np.zeros((4, 0))).nbytes == 0


def test_a_number_is_no_tensor() -> None:
    assert is_tensor(np.zeros(()))
    assert not is_tensor(np.float64(0))
    assert not is_tensor([0.0])


def test_bytes_are_a_view_where_memory_is_in_order_and_a_copy_where_not() -> None:
    array = np.arange(6).reshape(2, 3)
    assert np.shares_memory(byte_view(array), array)
    assert byte_view(array.T).tobytes() == array.T.tobytes()
    assert byte_view(array.astype(">i8")).tobytes() == array.tobytes()


def test_a_copy_takes_any_strides() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    target = np.zeros(array.nbytes, np.uint8)
    copy_into(target, array, describe(array))
    assert np.array_equal(rebuild(target, describe(array)), array)


def test_a_tensor_is_rebuilt_upon_its_bytes() -> None:
    source = np.zeros(8, np.uint8)
    array = rebuild(source, TensorHeader(kind="numpy", dtype="float32", shape=(2, 1)))
    array += 1
    assert source.any()


def test_bytes_of_another_length_are_refused() -> None:
    with pytest.raises(WireError, match="12 bytes arrived as 8 bytes"):
        rebuild(np.zeros(8, np.uint8), TensorHeader(kind="numpy", dtype="float32", shape=(3,)))


def test_a_torch_tensor_arrives_as_numpy_where_torch_must_not_be_imported() -> None:
    header = TensorHeader(kind="torch", dtype="float32", shape=(3,))
    assert receivable(header, torch=False).kind == "numpy"


def test_bfloat16_is_refused_where_torch_must_not_be_imported() -> None:
    header = TensorHeader(kind="torch", dtype="bfloat16", shape=(3,))
    with pytest.raises(WireError, match="bfloat16 arrived in a process without torch"):
        receivable(header, torch=False)


def test_the_places_of_dtypes_do_not_change() -> None:
    assert list(DTYPES) == [
        *("bool", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
    ]
