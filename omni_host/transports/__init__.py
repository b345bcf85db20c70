"""How tensors move between processes: what a transport is, and what it is given.

A transport turns a tensor into a *handle* that travels in a message, and the
handle back into a tensor at the other end. `omni_host.transports.inline` puts the
bytes into the message, `omni_host.transports.shm` into memory that both ends map.
Small tensors never reach a transport (see `omni_host.runtime.wire`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from omni_host.transports.tensors import TensorHeader

__all__ = ["Transport", "TransportContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportContext:
    """What a transport knows when it is built, in each process that uses it.

    Attributes:
        process: the name of this process; others call it by that as `peer` or `owner`.
        run: names this run of the host; letters and digits.
        settings: the transport's own settings (`transports.<name>` of the configuration).
    """

    process: str
    run: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Transport(Protocol):
    """One object for each transport and process. Every method may be called by any thread.

    A handle is plain msgpack data, or a C-contiguous buffer of bytes, which then travels
    as a frame of its own. A tensor is a numpy array or a torch tensor. Whatever cannot be
    done raises `WireError`.
    """

    def share(self, array: Any, peer: str) -> Any:
        """Copy or export `array` for `peer`; return the handle.

        What is shared stays so until `peer` has released it or is forgotten, or until
        this process discards the handle because it was never sent. A handle that is a
        buffer may be the array's own memory.
        """
        ...

    def open(self, handle: Any, header: TensorHeader, owner: str) -> Any:
        """Return the tensor behind `handle`, which `owner` shared: writable, and without a
        copy where possible. It is released once it and all its views are collected.

        Opening a handle twice, or after discarding it, is undefined.
        """
        ...

    def discard(self, handle: Any, owner: str) -> None:
        """Release a handle that nobody will open, here or, if it never left, in its owner."""
        ...

    def releases(self) -> Mapping[str, list[Any]]:
        """What has been released since the last call: tokens (plain data) by owner.

        They are to be handed to each owner's `released`, with the next message say.
        """
        ...

    def released(self, tokens: Iterable[Any]) -> None:
        """Take tokens back from a peer; those that are not known any more are ignored."""
        ...

    def forget(self, peer: str) -> None:
        """`peer` has ended: take back all it held and let go of what was mapped from it.

        Tensors that were opened stay valid. A process of the same name may start again.
        """
        ...

    def close(self) -> None:
        """Give everything back. Tensors that were opened stay valid. May be called twice."""
        ...
