import pytest

from tests.serve.calls import call
from tests.serve.fake_pipeline import FakePipeline


def test_a_pipeline_that_serves_is_ready():
    response = call(FakePipeline(), "GET", "/ready")

    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "state": "ready",
        "running": 0,
        "queued": 0,
        "stages": [{"stage": "talker", "process": "talker", "pid": 7, "state": "ready"}],
    }


@pytest.mark.parametrize("state", ["starting", "draining", "failed"])
def test_one_that_does_not_is_alive_but_not_ready(state):
    pipeline = FakePipeline()
    pipeline.state = state

    health = call(pipeline, "GET", "/health")
    ready = call(pipeline, "GET", "/ready")

    assert (health.status_code, ready.status_code) == (200, 503)
    assert ready.json()["state"] == ready.json()["stages"][0]["state"] == state
