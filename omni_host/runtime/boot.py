"""What a worker is told on its standard input when it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from omni_host.deployment import Deployment
from omni_host.errors import WireError
from omni_host.runtime.plain import from_plain, to_plain
from omni_host.runtime.wire import WIRE_VERSION

__all__ = ["Boot", "pack_boot", "read_boot"]

_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """Attributes:
    deployment: the whole of it; the worker looks up what is its own.
    process: the worker's process in the deployment.
    endpoint: its name among the mailboxes; each start of a process has another.
    address: where its mailbox listens.
    host: where the host's mailbox listens.
    folder: the private folder of this run, removed by whoever ends last.
    run: names this run, as in the names of shared memory.
    result_credits: how many unread chunks a request's client may have.
    log_level: of the worker's root logger.
    """

    deployment: Deployment
    process: str
    endpoint: str
    address: str
    host: str
    folder: str
    run: str
    result_credits: int
    log_level: int


def pack_boot(boot: Boot) -> bytes:
    """The bytes for a worker's standard input. Raises TypeError for what is not plain data."""
    body = msgpack.packb([WIRE_VERSION, to_plain(boot)])
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def read_boot(read: Callable[[int], bytes]) -> Boot:
    """Read it back. Raises WireError for another wire version or a truncated input."""
    body = _read_exactly(read, int.from_bytes(_read_exactly(read, _LENGTH_BYTES), "big"))
    version, data = _unpack(body)
    if version != WIRE_VERSION:
        raise WireError(
            f"The host speaks wire version {version}, this environment's omni-host {WIRE_VERSION}.",
            hint="Install the same version of omni-host in both environments.",
        )
    return from_plain(Boot, data)


def _unpack(body: bytes) -> tuple[int, Any]:
    version, data = msgpack.unpackb(body)
    return version, data


def _read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = read(count)
        if not part:
            raise WireError("The host ended before it had sent the boot data.")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
