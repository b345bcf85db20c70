import pytest

from omni_host.errors import StageFailedError
from omni_host.runtime import RequestReport, StageReport
from omni_host.serve import Metrics, ServeOptions, create_app
from tests.serve.calls import ORDER, SPEECH, call, call_app
from tests.serve.fake_pipeline import FakePipeline, chunk, deployment, failing, three_chunks


def after(pipeline: FakePipeline, **fields) -> Metrics:
    """The metrics after one speech request."""
    metrics = Metrics()
    app = create_app(pipeline, deployment(), ServeOptions(), metrics=metrics)
    call_app(app, "POST", SPEECH, json={**ORDER, **fields})
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_stages_are_observed_by_queue_batch_and_busy_time():
    metrics = Metrics()
    metrics.stage_report(StageReport(stage="talker", queue_s=0.25, busy_s=0.5, batch_size=4))

    assert value(metrics, "omni_stage_queue_seconds_sum", stage="talker") == 0.25
    assert value(metrics, "omni_stage_busy_seconds_sum", stage="talker") == 0.5
    assert value(metrics, "omni_stage_batch_size_sum", stage="talker") == 4


def test_requests_are_observed_by_outcome():
    metrics = Metrics()
    metrics.request_finished(
        RequestReport(
            id="1", task="speech", outcome="cancelled", error="OMNI-R007", queue_s=0.5, total_s=2.0
        )
    )

    assert value(metrics, "omni_request_queue_seconds_sum", outcome="cancelled") == 0.5
    assert value(metrics, "omni_request_seconds_sum", outcome="cancelled") == 2.0


@pytest.mark.parametrize(
    ("fields", "delivery"),
    [({}, "whole"), ({"stream_format": "audio"}, "audio"), ({"stream_format": "sse"}, "sse")],
)
def test_audio_is_observed_by_how_it_was_delivered(fields, delivery):
    metrics = after(FakePipeline(), **fields)

    assert value(metrics, "omni_audio_seconds_total", delivery=delivery) == pytest.approx(0.3)
    assert value(metrics, "omni_time_to_first_audio_seconds_count", delivery=delivery) == 1
    assert value(metrics, "omni_real_time_factor_count", delivery=delivery) == 1
    streamed = value(metrics, "omni_audio_underrun_seconds_count", delivery=delivery)
    assert streamed == (None if delivery == "whole" else 1)


def test_the_first_audio_of_a_stream_precedes_its_end():
    metrics = Metrics()
    seen = []

    async def watched(request):
        async for made in three_chunks(request):
            seen.append(value(metrics, "omni_time_to_first_audio_seconds_count", delivery="audio"))
            yield made

    app = create_app(FakePipeline(watched), deployment(), ServeOptions(), metrics=metrics)
    call_app(app, "POST", SPEECH, json={**ORDER, "stream_format": "audio"})

    assert seen == [None, 1, 1]


def test_responses_are_counted_by_route_and_status():
    metrics = after(FakePipeline(failing(StageFailedError("Failed."), after=0)))
    labels = {"method": "POST", "route": SPEECH, "status": "500"}

    assert value(metrics, "omni_http_requests_total", **labels) == 1


def test_labels_stay_few_whatever_clients_send():
    metrics = Metrics()
    app = create_app(FakePipeline(), deployment(), ServeOptions(), metrics=metrics)
    for number in range(20):
        call_app(app, f"BREW{number}", f"/nothing/{number}")
        call_app(app, "GET", f"/v1/models/{number}")

    unmatched = {"method": "other", "route": "unmatched", "status": "404"}
    models = {"method": "GET", "route": "/v1/models/{name:path}", "status": "404"}
    assert value(metrics, "omni_http_requests_total", **unmatched) == 20
    assert value(metrics, "omni_http_requests_total", **models) == 20


def test_the_page_has_gauges_of_the_pipeline_and_the_process():
    response = call(FakePipeline(), "GET", "/metrics")

    assert response.headers["content-type"].startswith("text/plain")
    for line in (
        "omni_requests_running 0.0",
        "omni_requests_queued 0.0",
        'omni_stage_ready{process="talker",stage="talker"} 1.0',
        'omni_stage_requests{stage="talker"} 0.0',
    ):
        assert line in response.text.splitlines()
    assert "process_resident_memory_bytes" in response.text


def test_two_servers_in_one_process_do_not_mix():
    after(FakePipeline())

    assert value(after(FakePipeline()), "omni_audio_seconds_total", delivery="whole") < 0.5


def test_a_client_that_is_slow_does_not_count_as_a_slow_model():
    # A stream that comes at once has no gap, whatever its chunks last.
    async def at_once(_request):
        for _ in range(3):
            yield chunk(24_000)

    metrics = after(FakePipeline(at_once), stream_format="audio")

    assert value(metrics, "omni_audio_underrun_seconds_sum", delivery="audio") == 0
