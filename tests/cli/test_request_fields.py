"""`--field NAME=VALUE`."""

import base64

import pytest

from omni_host.cli.request_fields import field_values
from omni_host.errors import UsageError
from omni_host.graph import RequestField, Task

TASK = Task(
    name="speech",
    entry=(),
    outputs=(),
    fields=tuple(
        RequestField(name=kind, type=kind, description="") for kind in ("string", "number", "audio")
    ),
)


def test_values_have_the_type_of_their_field():
    assert field_values(["string=1", "number=1", "other=true"], TASK) == {
        "string": "1",
        "number": 1,
        "other": True,
    }


def test_audio_may_come_from_a_file(tmp_path):
    (tmp_path / "voice.wav").write_bytes(b"RIFF")
    given = field_values([f"audio=@{tmp_path / 'voice.wav'}"], TASK)
    assert base64.b64decode(given["audio"]) == b"RIFF"
    assert field_values(["audio=UklGRg=="], TASK) == {"audio": "UklGRg=="}


@pytest.mark.parametrize("text", ["string", "=3"])
def test_a_field_needs_name_and_value(text):
    with pytest.raises(UsageError, match=f"--field {text}"):
        field_values([text], TASK)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--field audio: .*none\.wav cannot be read: No such"):
        field_values([f"audio=@{tmp_path / 'none.wav'}"], TASK)
