"""Memory that two processes map: kernel-owned where there is memfd, named elsewhere.

A memfd has no name in any file system. Its peers open it through
`/proc/<owner>/fd/<fd>`, so it is gone once the last process that maps it is, however
that ended. Named POSIX segments are for macOS, and for systems that forbid opening
another process' descriptors; their owner must unlink them.
"""

from __future__ import annotations

import _posixshmem
import contextlib
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
        self.memory, fd = _create(name, size, backing)
        self.address = Address(pid=os.getpid(), fd=fd, name=name, size=size)

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


def unlink(name: str) -> None:
    """Remove a named segment, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        _posixshmem.shm_unlink(f"/{name}")


def _create(name: str, size: int, backing: Backing) -> tuple[mmap.mmap, int]:
    """The memory, and the descriptor that peers open it by, or -1."""
    try:
        if backing == "memfd":
            return _create_memfd(name, size)
        return _create_named(name, size), -1
    except OSError as error:
        raise WireError(f"{size} bytes of shared memory cannot be had: {error}") from error


def _create_memfd(name: str, size: int) -> tuple[mmap.mmap, int]:
    fd = os.memfd_create(name)
    try:
        os.ftruncate(fd, size)
        return mmap.mmap(fd, size), fd
    except OSError:
        os.close(fd)
        raise


def _create_named(name: str, size: int) -> mmap.mmap:
    fd = _posixshmem.shm_open(f"/{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
    try:
        os.ftruncate(fd, size)
        if sys.platform == "linux":
            # A full /dev/shm must be an error here, not a SIGBUS at the first write.
            os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size)
    except OSError:
        unlink(name)
        raise
    finally:
        os.close(fd)


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
