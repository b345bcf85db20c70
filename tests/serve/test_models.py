import pytest

from tests.serve.calls import call
from tests.serve.fake_pipeline import FakePipeline


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
