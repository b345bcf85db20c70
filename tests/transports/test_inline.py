"""The inline transport: a tensor's bytes are its handle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from omni_host.errors import WireError
from omni_host.transports import TransportContext
from omni_host.transports.inline import InlineTransport
from omni_host.transports.tensors import describe


@pytest.fixture
def transport() -> InlineTransport:
    return InlineTransport(TransportContext(process="a", run="inlinetest"))


@pytest.mark.parametrize("carried", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_become_a_writable_array(
    transport: InlineTransport, carried: Any
) -> None:
    array = np.arange(30_000)
    got = transport.open(carried(transport.share(array, "b")), describe(array), "a")
    assert np.array_equal(got, array)
    got += 1


def test_an_array_that_arrives_read_only_is_copied(transport: InlineTransport) -> None:
    array = np.arange(30_000)
    frame = bytes(transport.share(array, "b"))
    assert not np.shares_memory(transport.open(frame, describe(array), "a"), np.frombuffer(frame))


@pytest.mark.parametrize("handle", [None, 5, "text", [1, 2], b"", b"1234567"])
def test_a_handle_that_is_not_the_tensors_bytes_is_refused(
    transport: InlineTransport, handle: Any
) -> None:
    with pytest.raises(WireError):
        transport.open(handle, describe(np.zeros(1)), "a")
    transport.discard(handle, "a")


def test_there_is_nothing_to_release(transport: InlineTransport) -> None:
    transport.share(np.zeros(30_000), "b")
    assert not transport.releases()
    transport.released([1])
    transport.forget("b")
    transport.close()
