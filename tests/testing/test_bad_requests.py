from __future__ import annotations

from omni_host.graph import Output, RequestField, Task
from omni_host.testing.bad_requests import bad_requests

GOOD = {"text": "Hi.", "voice": "ann", "speed": None, "instructions": None}


def task(*fields, **options):
    outputs = (Output(stage="a", modality="audio", sample_rate=8000),)
    return Task(name="speech", entry=("a",), outputs=outputs, fields=fields, **options)


def wrong(*fields, **options):
    """The values tried, by field."""
    tried = {}
    for bad in bad_requests(task(*fields, **options), GOOD):
        (field,) = {key for key in bad.payload if bad.payload[key] is not GOOD.get(key)}
        assert field in bad.fields
        tried.setdefault(field, []).append(bad.payload[field])
    return tried


def test_only_what_the_task_takes_is_tried():
    assert wrong().keys() == {"text"}
    everything = wrong(voices=("ann",), honours=frozenset({"speed", "instructions"}))
    assert everything.keys() == {"text", "voice", "speed", "instructions"}
    assert "ann" not in everything["voice"]


def test_a_text_may_be_called_as_in_the_api():
    bad = next(iter(bad_requests(task(), GOOD)))
    assert bad.fields == {"text", "input"}


def test_a_number_is_tried_beyond_both_ends():
    seed = RequestField(name="seed", type="integer", description="", minimum=0, maximum=9)
    assert {-1, 10} <= {value for value in wrong(seed)["seed"] if isinstance(value, int)}


def test_a_choice_is_tried_with_another():
    mood = RequestField(name="mood", type="string", description="", choices=("calm",))
    assert any(isinstance(value, str) and value != "calm" for value in wrong(mood)["mood"])


def test_no_audio_is_tried_for_audio():
    voice = RequestField(name="sample", type="audio", description="")
    assert b"" in wrong(voice)["sample"]
