"""What the operator decides about serving."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ServeOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Everything has a safe default.

    Attributes:
        host: address to listen on; only this machine by default.
        port: TCP port; 0 takes a free one.
        drain_s: how long requests that are running may go on after SIGTERM.
        max_body_bytes: the largest request body; a larger one is a 413.
        max_whole_bytes: the largest answer that is not streamed, since it is held in memory.
        stall_timeout_s: a client that takes no byte for so long loses its stream.
        routes: plugins, by name, whose HTTP routes are served.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    drain_s: float = 30.0
    max_body_bytes: int = 32 * 2**20
    max_whole_bytes: int = 256 * 2**20
    stall_timeout_s: float = 120.0
    routes: tuple[str, ...] = ()
