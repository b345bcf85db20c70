from dataclasses import replace

import pytest

from omni_host.serve import ServeOptions, create_app
from tests.serve.calls import ORDER, SPEECH, call, call_app
from tests.serve.fake_pipeline import FakePipeline, deployment


def test_the_model_is_listed():
    response = call(FakePipeline(), "GET", "/v1/models")

    (model,) = response.json()["data"]
    assert response.json()["object"] == "list"
    assert (model["id"], model["object"], model["owned_by"]) == ("toy/talker", "model", "toy")
    assert isinstance(model["created"], int)


@pytest.mark.parametrize("path", ["toy/talker", "toy%2Ftalker"])
def test_a_name_with_a_slash_is_found(path):
    assert call(FakePipeline(), "GET", f"/v1/models/{path}").json()["id"] == "toy/talker"


def test_another_model_is_not_found():
    response = call(FakePipeline(), "GET", "/v1/models/tts-1")

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def test_an_alias_is_accepted_and_the_served_name_listed_first():
    aliased = replace(deployment(), aliases=("demo", "default"))
    app = create_app(FakePipeline(), aliased, ServeOptions())

    listed = call_app(app, "GET", "/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["toy/talker", "demo", "default"]
    assert call_app(app, "GET", "/v1/models/demo").json()["id"] == "demo"
    for model in ("toy/talker", "demo", "default"):
        assert call_app(app, "POST", SPEECH, json={**ORDER, "model": model}).status_code == 200
    assert call_app(app, "POST", SPEECH, json={**ORDER, "model": "demos"}).status_code == 404
