"""A pipeline with the operator's limits."""

from __future__ import annotations

from omni_host.config.settings import Settings
from omni_host.deployment import Deployment
from omni_host.plugins import Plugins
from omni_host.runtime import Health, Limits, Pipeline, RuntimeObserver

__all__ = ["pipeline_of"]


def pipeline_of(
    deployment: Deployment,
    plugins: Plugins,
    settings: Settings,
    observer: RuntimeObserver | None = None,
) -> Pipeline:
    """Not started yet."""
    limits, health = settings.values.limits, settings.values.health
    return Pipeline(
        deployment,
        plugins,
        limits=Limits(
            max_running=limits.max_running,
            max_queued=limits.max_queued,
            deadline_s=limits.deadline_seconds,
            result_credits=limits.result_credits,
        ),
        health=Health(
            start_s=health.start_seconds,
            ping_s=health.ping_seconds,
            limit_s=health.limit_seconds,
            failures=health.failures,
            failures_s=health.failures_seconds,
            backoff_s=health.backoff_seconds,
            backoff_most_s=health.backoff_most_seconds,
            stop_s=health.stop_seconds,
        ),
        observer=observer,
    )
