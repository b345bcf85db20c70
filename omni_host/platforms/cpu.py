"""The CPU, which is always there."""

from __future__ import annotations

import os
import platform

from omni_host.offers import PlatformProbe

__all__ = ["probe"]


def probe() -> PlatformProbe:
    """Cores this process may use and the machine's memory in bytes, if it can be told."""
    cores = _cores()
    memory = _memory_bytes()
    return PlatformProbe(
        name="cpu",
        devices=("cpu",),
        priority=0,
        memory_bytes=(memory,) if memory else (),
        notes=(f"{platform.machine()}, {cores} cores",),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
