"""Memory that two processes map: kernel-owned where there is memfd, named elsewhere.

A memfd has no name in any file system. Its peers open it through
`/proc/<owner>/fd/<fd>`, so it is gone once the last process that maps it is, however
that ended. Named POSIX segments are for macOS, and for systems that forbid opening
another process' descriptors; their owner must unlink them.
"""

from __future__ import annotations

import _posixshmem
import mmap
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omni_host.errors import WireError

__all__ = ["Address", "Backing", "Segment", "attach", "best_backing", "unlink"]

Backing = Literal["memfd", "named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a segment is: `fd` of process `pid`, or the POSIX name if `fd` is -1."""

    pid: int
    fd: int
    name: str
    size: int


class Segment:
    """Memory that this process owns, mapped for as long as it is open.

    `name` identifies it among all segments of the machine: at most 30 ASCII characters.
    """

    def __init__(self, name: str, size: int, backing: Backing) -> None:
        fd = _create(name, size, backing)
        self.memory = mmap.mmap(fd, size)
        keeps = backing == "memfd"
        self.address = Address(pid=os.getpid(), fd=fd if keeps else -1, name=name, size=size)
        if not keeps:
            os.close(fd)

    def close(self) -> None:
        """Let go of it. The memory itself lives until every view of it is collected.

        A forked child lets go of its own descriptor alone.
        """
        if self.address.fd >= 0:
            os.close(self.address.fd)
        elif self.address.pid == os.getpid():
            unlink(self.address.name)


def best_backing() -> Backing:
    """What this system offers."""
    if sys.platform == "linux" and Path("/proc/self/fd").is_dir():
        return "memfd"
    return "named"


def attach(address: Address) -> mmap.mmap:
    """Map a segment of another process. Raises WireError if it is gone or not that one."""
    try:
        fd = _open(address)
        try:
            return mmap.mmap(fd, address.size)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        raise WireError(
            f"shared memory {address.name} of process {address.pid} cannot be opened: {error}",
            hint="if the process is alive, try --set transports.shm.segments=named",
        ) from error


def unlink(name: str) -> bool:
    """Remove a named segment; whether there was one."""
    try:
        _posixshmem.shm_unlink(f"/{name}")
    except FileNotFoundError:
        return False
    return True


def _create(name: str, size: int, backing: Backing) -> int:
    try:
        if backing == "memfd":
            fd = os.memfd_create(name)
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            fd = _posixshmem.shm_open(f"/{name}", flags, mode=0o600)
        try:
            os.ftruncate(fd, size)
            if backing == "named" and sys.platform == "linux":
                # A full /dev/shm must be an error here, not a SIGBUS at the first write.
                os.posix_fallocate(fd, 0, size)
        except OSError:
            os.close(fd)
            if backing == "named":
                unlink(name)
            raise
    except OSError as error:
        raise WireError(f"{size} bytes of shared memory cannot be had: {error}") from error
    return fd


def _open(address: Address) -> int:
    if address.fd < 0:
        return _posixshmem.shm_open(f"/{address.name}", os.O_RDWR, mode=0o600)
    # The process and its descriptor may be others by now than those that were meant: opening
    # them must not block, and what was opened is looked at.
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(f"/proc/{address.pid}/fd/{address.fd}", flags)
    if str(Path(f"/proc/self/fd/{fd}").readlink()) != f"/memfd:{address.name} (deleted)":
        os.close(fd)
        raise FileNotFoundError("its owner has closed it")
    return fd
