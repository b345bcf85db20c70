"""/openapi.json tells what the server takes and answers."""

from omni_host.audio import FORMATS
from tests.serve.calls import SPEECH, call, speak
from tests.serve.fake_pipeline import SPEECH as TASK
from tests.serve.fake_pipeline import FakePipeline


def schema() -> dict:
    return call(FakePipeline(), "GET", "/openapi.json").json()


def body() -> dict:
    operation = schema()["paths"][SPEECH]["post"]
    return operation["requestBody"]["content"]["application/json"]["schema"]


def test_every_field_of_the_api_and_the_family_is_described():
    openai = {"model", "input", "voice", "instructions", "response_format", "speed"}
    family = {field.name for field in TASK.fields}

    assert set(body()["properties"]) == openai | {"stream_format"} | family
    assert body()["required"] == ["model", "input"]
    assert body()["additionalProperties"] is False
    assert body()["properties"]["input"]["maxLength"] == TASK.max_characters
    assert body()["properties"]["response_format"]["anyOf"][0]["enum"] == list(FORMATS)
    assert body()["properties"]["top_k"]["anyOf"][0]["minimum"] == 1


def test_its_example_works():
    (example,) = body()["examples"]

    assert speak(**example).status_code == 200


def test_every_reference_leads_somewhere():
    document = schema()

    def references(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key == "$ref":
                    yield inner
                else:
                    yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(document))
    assert "#/components/schemas/ErrorBody" in found
    for reference in found:
        place = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_every_answer_is_described():
    responses = schema()["paths"][SPEECH]["post"]["responses"]

    assert set(responses) == {
        *("200", "400", "404", "413", "415", "500", "502", "503", "504", "default")
    }
    assert set(responses["200"]["content"]) == {
        *("audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm"),
        "text/event-stream",
    }
    assert "Retry-After" in responses["503"]["headers"]
    for path in schema()["paths"].values():
        for operation in path.values():
            assert "422" not in operation["responses"]


def test_the_page_for_people_is_there():
    assert call(FakePipeline(), "GET", "/docs").status_code == 200
