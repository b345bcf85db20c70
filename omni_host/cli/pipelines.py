"""Settings as the runtime takes them."""

from __future__ import annotations

from omni_host.config.settings import Settings
from omni_host.runtime import Limits

__all__ = ["limits_of"]


def limits_of(settings: Settings) -> Limits:
    """`[limits]`."""
    table = settings.values.limits
    return Limits(
        max_running=table.max_running,
        max_queued=table.max_queued,
        deadline_s=table.deadline_seconds,
    )
