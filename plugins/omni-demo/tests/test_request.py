"""The fields of a request."""

import math

import pytest
from omni_demo.request import read_request

from omni_host.api import errors


def test_only_the_text_is_needed():
    request = read_request({"text": "Hi."})
    assert (request.voice, request.speed, request.seed) == ("heart", 1.0, 0)


def test_none_is_as_good_as_absent():
    fields = dict.fromkeys(("voice", "instructions", "speed", "seed"))
    assert read_request({"text": "Hi.", **fields}) == read_request({"text": "Hi."})


@pytest.mark.parametrize("speed", [0.5, 1, 2.0])
def test_speeds_within_the_range_are_taken(speed):
    assert read_request({"text": "Hi.", "speed": speed}).speed == speed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("voice", "emma"),
        ("voice", ""),
        ("voice", ["heart"]),
        ("instructions", "Whisper."),
        *(("speed", value) for value in (0.49, 2.01, 0, -1, math.nan, math.inf, "1", True)),
        *(("seed", value) for value in (-1, 2**32, 1.5, "1", True)),
    ],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(errors.InvalidRequestError) as caught:
        read_request({"text": "Hi.", field: value})
    assert caught.value.field == field


def test_an_unknown_voice_is_answered_with_the_known_ones():
    with pytest.raises(errors.InvalidRequestError, match="the known ones are: heart"):
        read_request({"text": "Hi.", "voice": "kore"})


@pytest.mark.parametrize("text", ["", "  \n\t", None, 7])
def test_a_text_of_nothing_is_refused(text):
    with pytest.raises(errors.InvalidRequestError) as caught:
        read_request({"text": text})
    assert caught.value.field == "input"


def test_a_payload_that_is_no_object_is_refused():
    with pytest.raises(errors.InvalidRequestError, match="object"):
        read_request("Hi.")
