from __future__ import annotations

import numpy as np
import psutil
import pytest

from omni_host.errors import ConfigError, InvalidRequestError, ModelError
from omni_host.testing import ServedModel

TEXT = "Good morning, everybody."
LONG = "Good morning, everybody. " * 20


@pytest.fixture
def model(toy_site, serve_model):
    return serve_model("toy_voice")


def test_a_text_is_spoken_at_the_models_rate(model):
    samples = model.speak(TEXT)
    assert samples.dtype == np.float32
    assert samples.shape == ((len(TEXT) + 1) * model.sample_rate // 10,)


def test_fields_are_those_of_the_api(model):
    assert model.speak(TEXT, speed=2.0).size == model.speak(TEXT).size // 2
    assert not np.array_equal(model.speak(TEXT, mood="merry"), model.speak(TEXT))
    for field in ("volume", "mood"):
        with pytest.raises(InvalidRequestError) as caught:
            model.speak(TEXT, **{field: "none such"})
        assert caught.value.field == field


def test_a_stream_gives_the_chunks_one_by_one(model):
    with model.stream(TEXT) as stream:
        chunks = list(stream)
    assert len(chunks) == len(TEXT.split())
    assert np.array_equal(np.concatenate(chunks), model.speak(TEXT))


def test_leaving_a_stream_cancels_its_request(model):
    with model.stream(LONG) as stream:
        next(stream)
        assert model.holding()
    model.wait_until_idle()
    assert not model.holding()


def test_requests_at_once_are_answered_in_their_order(model):
    requests = [
        {"text": text, "voice": voice} for text in (TEXT, "Hi.") for voice in ("low", "high")
    ]
    together = model.speak_at_once(requests)
    for samples, request in zip(together, requests, strict=True):
        assert np.array_equal(samples, model.speak(**request))


def test_a_payload_reaches_the_stages_as_it_is(model):
    payload = {**model.payload(TEXT), "voice": "none such"}
    with model.submit(payload) as stream, pytest.raises(InvalidRequestError) as caught:
        list(stream)
    assert caught.value.field == "voice"


def test_the_same_arguments_give_the_same_running_model(toy_site, serve_model, model):
    assert serve_model("toy_voice") is model
    fused = serve_model("toy_voice", "placement=fused")
    assert len(set(model.processes().values())) == 2
    assert len(set(fused.processes().values())) == 1
    assert np.array_equal(fused.speak(TEXT), model.speak(TEXT))


def test_no_process_is_left_and_none_is_needed_to_be_told_so(toy_site):
    with ServedModel("toy_voice") as served:
        pids = served.processes().values()
        assert all(psutil.pid_exists(pid) for pid in pids)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="does not run"):
        served.speak(TEXT)


def test_a_wait_ends_by_saying_what_it_waited_for(toy_site):
    said = "a chunk did not come within 0 s"
    with (
        ServedModel("toy_voice", patience_s=0.0) as served,
        pytest.raises(TimeoutError, match=said),
    ):
        served.speak(LONG)


def test_what_cannot_be_planned_is_refused_before_anything_starts(toy_site):
    with pytest.raises(ModelError):
        ServedModel("toy_voise")
    with pytest.raises(ConfigError, match="placement"):
        ServedModel("toy_voice", "placement=nowhere")
