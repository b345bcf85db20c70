"""Whatever is wrong with a request is a 4xx that names the field, and the next one is served."""

import json

import pytest

from tests.serve.calls import ORDER, SPEECH, call, speak
from tests.serve.fake_pipeline import SPEECH as TASK
from tests.serve.fake_pipeline import FakePipeline

FIELDS = [
    ("model", None),
    ("model", 3),
    ("model", ["toy/talker"]),
    ("input", None),
    ("input", ""),
    ("input", "  \n\t "),
    ("input", 42),
    ("input", ["Good morning."]),
    ("input", {"text": "Good morning."}),
    ("input", "x" * 201),
    ("input", "x" * 1_000_000),
    ("input", "\ud800"),
    ("voice", "carol"),
    ("voice", "Ada"),
    ("voice", ""),
    ("voice", 1),
    ("voice", ["ada"]),
    ("voice", {}),
    ("voice", {"id": 1}),
    ("voice", {"id": "carol"}),
    ("voice", {"id": "ada", "name": "Ada"}),
    ("voice", "x" * 1_000_000),
    ("voice", "\udfff"),
    ("instructions", 1),
    ("instructions", ["Whisper."]),
    ("response_format", "m4a"),
    ("response_format", "ogg"),
    ("response_format", "WAV"),
    ("response_format", ""),
    ("response_format", 1),
    ("speed", 0),
    ("speed", 0.1),
    ("speed", 4.1),
    ("speed", -1),
    ("speed", 1e308),
    ("speed", 10**400),
    ("speed", "1.0"),
    ("speed", True),
    ("stream_format", "raw"),
    ("stream_format", True),
    ("stream_format", ""),
    ("top_k", 0),
    ("top_k", 1.5),
    ("top_k", "50"),
    ("top_k", True),
    ("top_k", 2**63),
    ("top_k", 10**400),
    ("temperature", 2.1),
    ("temperature", "hot"),
    ("temperature", 10**400),
    ("language", "fr"),
    ("language", 1),
    ("greedy", 1),
    ("greedy", "true"),
    ("reference", 1),
    ("reference", ""),
    ("reference", "no base64!"),
    ("reference", "https://example.com/a.wav"),
    ("reference", "file:///etc/passwd"),
    ("reference", "data:audio/wav,RIFF"),
    ("stream", True),
    ("user", "someone"),
    ("", 1),
    ("n" * 64, 1),
]


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_a_wrong_field_is_a_400_that_names_it(field, value):
    response = speak_raw(json.dumps({**ORDER, field: value}).encode())

    assert response.status_code == 400
    assert named(response) == field


@pytest.mark.parametrize("field", ["model", "input"])
def test_a_missing_field_is_named(field):
    left = {name: value for name, value in ORDER.items() if name != field}

    response = speak_raw(json.dumps(left).encode())

    assert (response.status_code, named(response)) == (400, field)


BODIES = {
    "nothing": b"",
    "no object": b"[]",
    "a string": b'"hello"',
    "null": b"null",
    "a number": b"1",
    "cut short": b'{"model": "toy/talker", "input": "Goo',
    "a trailing comma": b'{"model": "toy/talker",}',
    "single quotes": b"{'model': 'toy/talker'}",
    "a comment": b'{"model": "toy/talker"} // hello',
    "two objects": b"{}{}",
    "a control character": b'{"input": "a\x00b"}',
    "invalid UTF-8": b'{"input": "\xff\xfe"}',
    "UTF-16": '{"input": "a"}'.encode("utf-16"),
    "an overlong sequence": b'{"input": "\xc0\xaf"}',
    "an encoded surrogate": b'{"input": "\xed\xa0\x80"}',
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "NaN": b'{"speed": NaN}',
    "Infinity": b'{"speed": Infinity}',
    "-Infinity": b'{"speed": -Infinity}',
    "a number without end": b'{"speed": ' + b"9" * 5000 + b"}",
    "deep arrays": b'{"input": ' + b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "duplicate keys": b'{"input": "a", "input": "b"}',
    "a duplicate key inside": b'{"voice": {"id": "ada", "id": "bob"}}',
    "a form": b"model=toy&input=hello",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_is_no_decent_json_object_is_a_400(body):
    response = speak_raw(body)

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_field_that_is_no_unicode_is_named_by_its_escape():
    response = speak_raw(json.dumps({**ORDER, "\ud800": 1}).encode())

    assert (response.status_code, named(response)) == (400, "\\ud800")


def test_a_hundred_thousand_unknown_fields_are_one_error():
    fields = ",".join(f'"{number}":1' for number in range(100_000))
    response = speak_raw(f"{{{fields}}}".encode())

    assert (response.status_code, named(response)) == (400, "0")


def test_many_keys_and_one_of_them_twice_is_answered_at_once():
    keys = ",".join(f'"{number}":1' for number in range(200_000))
    response = speak_raw(f'{{{keys},"199999":1}}'.encode())

    assert (response.status_code, named(response)) == (400, "199999")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_another_content_type_is_a_415(headers):
    response = speak_raw(json.dumps(ORDER).encode(), headers)

    assert response.status_code == 415
    assert response.json()["error"]["code"] == "unsupported_media_type"


def test_a_charset_may_be_named():
    headers = {"content-type": "application/json; charset=utf-8"}

    assert speak_raw(json.dumps(ORDER).encode(), headers).status_code == 200


def test_a_body_over_the_limit_is_a_413():
    sent = {
        "content": json.dumps(ORDER).encode(),
        "headers": JSON,
        "options": {"max_body_bytes": 9},
    }
    response = call(FakePipeline(), "POST", SPEECH, **sent)

    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"


def test_a_body_of_unknown_length_is_cut_at_the_limit():
    async def endless():
        while True:
            yield b" " * 1000

    options = {"max_body_bytes": 10_000}
    response = call(
        FakePipeline(), "POST", SPEECH, content=endless(), headers=JSON, options=options
    )

    assert response.status_code == 413


def test_another_model_is_not_found_as_at_openai():
    response = speak(model="tts-1")

    assert response.status_code == 404
    assert response.json()["error"] == {
        "message": "The model 'tts-1' does not exist. This server has 'toy/talker'.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_a_misspelt_field_is_corrected():
    assert "Did you mean 'voice'?" in speak(voise="ada").json()["error"]["message"]


def test_an_unknown_voice_is_told_the_known_ones():
    assert "ada, bob" in speak(voice="alloy").json()["error"]["message"]


def test_an_unavailable_format_is_told_the_available_ones():
    assert "mp3, opus" in speak(response_format="m4a").json()["error"]["message"]


def test_a_wrong_value_is_not_repeated_at_length():
    assert len(speak(voice="x" * 100_000).text) < 500
    assert len(speak(input=["x" * 100_000]).text) < 500


def test_what_the_model_cannot_do_is_refused_unless_it_changes_nothing():
    mute = type(TASK)(name="speech", entry=TASK.entry, outputs=TASK.outputs)
    sent = {**ORDER, "instructions": "", "speed": 1.0, "voice": "default"}

    pipeline = FakePipeline()
    served = call(pipeline, "POST", SPEECH, json=sent, options={"task": mute})
    refused = call(
        pipeline, "POST", SPEECH, json={**sent, "instructions": "Sing."}, options={"task": mute}
    )

    assert served.status_code == 200
    assert pipeline.submitted[0].payload == {
        "text": ORDER["input"],
        "voice": None,
        "instructions": None,
        "speed": None,
    }
    assert (refused.status_code, named(refused)) == (400, "instructions")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/audio/speech/", 404),
        ("POST", "/v1//audio/speech", 404),
        ("GET", SPEECH, 405),
        ("DELETE", "/v1/models", 405),
        ("OPTIONS", SPEECH, 405),
        ("BREW", SPEECH, 405),
    ],
)
def test_another_path_or_method_has_openais_error_shape(method, path, status):
    response = call(FakePipeline(), method, path)

    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert "x-request-id" in response.headers


JSON = {"content-type": "application/json"}


def speak_raw(body: bytes, headers: dict[str, str] | None = None):
    """Send a body as it is, and see that the next request is served."""
    pipeline = FakePipeline()
    headers = JSON if headers is None else headers
    response = call(pipeline, "POST", SPEECH, content=body, headers=headers)
    assert len(pipeline.submitted) == (response.status_code == 200)
    assert speak(pipeline).status_code == 200
    return response


def named(response) -> str | None:
    return response.json()["error"]["param"]
