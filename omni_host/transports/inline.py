"""The transport that needs no memory of its own: the bytes are a frame of the message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from omni_host.errors import WireError
from omni_host.transports import TransportContext
from omni_host.transports.tensors import TensorHeader, byte_view, rebuild

__all__ = ["InlineTransport"]


class InlineTransport:
    """A handle is the tensor's bytes, so there is nothing to release."""

    def __init__(self, context: TransportContext) -> None:
        del context

    def share(self, array: Any, peer: str) -> memoryview[int]:
        return byte_view(array).data

    def open(self, handle: Any, header: TensorHeader, owner: str) -> Any:
        """Without a copy if the frame is writable, as those of `zmq.Frame.buffer` are."""
        if not isinstance(handle, bytes | bytearray | memoryview):
            raise WireError(f"an inline tensor arrived without its bytes from {owner}")
        source = np.frombuffer(cast("bytes", handle), np.uint8)
        return rebuild(source if source.flags.writeable else source.copy(), header)

    def discard(self, handle: Any, owner: str) -> None:
        pass

    def releases(self) -> Mapping[str, list[Any]]:
        return {}

    def released(self, tokens: Iterable[Any]) -> None:
        pass

    def forget(self, peer: str) -> None:
        pass

    def close(self) -> None:
        pass
