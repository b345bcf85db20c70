"""Prometheus metrics of the runtime and the API, in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from omni_host.runtime import Pipeline, RequestReport, StageReport
from omni_host.serve.playback import Playback

__all__ = ["Metrics", "metrics_router"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 5, 10)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Observes a pipeline (`RuntimeObserver`) and the API in front of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._stage_queue = self._histogram(
            "omni_stage_queue_seconds",
            "Time a request waited in a stage for a place or for its compute thread.",
            ["stage"],
        )
        self._stage_batch = self._histogram(
            "omni_stage_batch_size",
            "Requests in the stage call that a request was part of.",
            ["stage"],
            _BATCHES,
        )
        self._stage_busy = self._histogram(
            "omni_stage_busy_seconds", "Time a stage worked on a request.", ["stage"]
        )
        self._queue = self._histogram(
            "omni_request_queue_seconds", "Time a request waited for admission.", ["outcome"]
        )
        self._total = self._histogram(
            "omni_request_seconds", "Time from submission to the end of a request.", ["outcome"]
        )
        self._first_audio = self._histogram(
            "omni_time_to_first_audio_seconds",
            "Time from a request's arrival until its first audio is handed to the client.",
            ["delivery"],
        )
        self._factor = self._histogram(
            "omni_real_time_factor",
            "Time to make the audio over its duration; below 1 is faster than playback.",
            ["delivery"],
            _FACTORS,
        )
        self._underrun = self._histogram(
            "omni_audio_underrun_seconds",
            "Time that a player without a buffer would have been starved in a stream.",
            ["delivery"],
        )
        self._audio = Counter(
            "omni_audio_seconds",
            "Duration of the audio handed to clients.",
            ["delivery"],
            registry=self.registry,
        )
        self._http = Counter(
            "omni_http_requests",
            "HTTP requests by how they ended; 499 is a client that went away.",
            ["method", "route", "status"],
            registry=self.registry,
        )

    def watch(self, pipeline: Pipeline) -> None:
        """Read the gauges of `pipeline` whenever the metrics are scraped."""
        self.registry.register(_PipelineGauges(pipeline))

    def stage_report(self, report: StageReport) -> None:
        self._stage_queue.labels(report.stage).observe(report.queue_s)
        self._stage_batch.labels(report.stage).observe(report.batch_size)
        self._stage_busy.labels(report.stage).observe(report.busy_s)

    def request_finished(self, report: RequestReport) -> None:
        self._queue.labels(report.outcome).observe(report.queue_s)
        self._total.labels(report.outcome).observe(report.total_s)

    def first_audio(self, delivery: str, seconds: float) -> None:
        """The first audio of a request was handed to the client."""
        self._first_audio.labels(delivery).observe(seconds)

    def spoken(self, delivery: str, playback: Playback, seconds: float) -> None:
        """All the audio of a request was made, in so many seconds from its arrival."""
        self._audio.labels(delivery).inc(playback.audio_s)
        if playback.audio_s:
            self._factor.labels(delivery).observe(seconds / playback.audio_s)
        if delivery != "whole":
            self._underrun.labels(delivery).observe(playback.underrun_s)

    def http_finished(self, method: str, route: str, status: int) -> None:
        """A response ended; `route` is the path's template, so that labels stay few."""
        self._http.labels(method if method in _METHODS else "other", route, str(status)).inc()

    def _histogram(
        self, name: str, text: str, labels: list[str], buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)


class _PipelineGauges(Collector):
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        snapshot = self._pipeline.snapshot()
        yield GaugeMetricFamily(
            "omni_requests_running", "Requests inside the stages.", snapshot.running
        )
        yield GaugeMetricFamily(
            "omni_requests_queued", "Requests that wait for admission.", snapshot.queued
        )
        ready = GaugeMetricFamily(
            "omni_stage_ready", "1 while the stage's process serves.", labels=["stage", "process"]
        )
        inside = GaugeMetricFamily(
            "omni_stage_requests", "Requests inside the stage.", labels=["stage"]
        )
        queued = GaugeMetricFamily(
            "omni_stage_requests_queued", "Those of them that wait.", labels=["stage"]
        )
        for stage in snapshot.stages:
            ready.add_metric([stage.stage, stage.process], float(stage.state == "ready"))
            inside.add_metric([stage.stage], stage.inside)
            queued.add_metric([stage.stage], stage.queued)
        yield from (ready, inside, queued)


def metrics_router(metrics: Metrics) -> APIRouter:
    """`GET /metrics` in Prometheus' text format."""
    router = APIRouter(tags=["operation"])

    @router.get("/metrics", response_class=Response, summary="Prometheus metrics")
    async def scrape() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router
