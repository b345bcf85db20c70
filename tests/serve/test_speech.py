import base64
import io
import json
import wave
from dataclasses import replace

import numpy as np
import pytest

from omni_host import errors
from omni_host.audio import FORMATS, decode, pcm16, wav_header
from tests.audio.recordings import pitch
from tests.serve.calls import ORDER, SPEECH, call, speak
from tests.serve.fake_pipeline import RATE, FakePipeline, chunk, failing, samples
from tests.serve.fake_pipeline import SPEECH as TASK

SPOKEN = pcm16(samples(7200))


def test_mp3_is_the_default_as_at_openai():
    response = speak()

    assert response.headers["content-type"] == "audio/mpeg"
    assert int(response.headers["content-length"]) == len(response.content)
    assert len(decode(response.content, RATE)) == 7200


def test_a_whole_wav_tells_its_length():
    response = speak(response_format="wav")

    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/wav"
    assert int(response.headers["content-length"]) == len(response.content)
    with wave.open(io.BytesIO(response.content)) as file:
        assert (file.getframerate(), file.getnframes()) == (RATE, 7200)
        assert file.readframes(7200) == SPOKEN


def test_pcm_is_the_same_whole_and_streamed():
    whole = speak(response_format="pcm")
    streamed = speak(response_format="pcm", stream_format="audio")

    assert whole.content == streamed.content == SPOKEN
    assert whole.headers["content-type"] == "audio/pcm;rate=24000;channels=1"
    assert "content-length" not in streamed.headers


def test_a_streamed_wav_begins_with_an_open_header():
    response = speak(response_format="wav", stream_format="audio")

    assert response.content == wav_header(RATE, None) + SPOKEN


@pytest.mark.parametrize("stream_format", [None, "audio", "sse"])
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "pcm"])
def test_every_format_is_spoken_in_every_way(name, stream_format):
    response = speak(response_format=name, stream_format=stream_format)
    data = response.content
    if stream_format == "sse":
        data = b"".join(base64.b64decode(event["audio"]) for _, event in events_of(response)[:-1])
    else:
        assert response.headers["content-type"] == FORMATS[name].media_type(RATE)

    heard = decode(data, RATE)
    assert len(heard) == pytest.approx(7200, abs=1800)
    assert pitch(heard) == pytest.approx(440, abs=5)


@pytest.mark.parametrize("name", ["pcm", "mp3"])
@pytest.mark.parametrize("speed", [0.25, 0.8, 1.5, 4.0])
def test_another_speed_is_another_tempo_where_the_model_has_one(speed, name):
    pipeline = FakePipeline()
    response = speak(pipeline, speed=speed, response_format=name)
    raw = response.content if name == "pcm" else pcm16(decode(response.content, RATE))
    heard = np.frombuffer(raw, "<i2").astype(np.float32)

    assert pipeline.submitted[0].payload["speed"] is None
    assert len(heard) == pytest.approx(7200 / speed, abs=100)
    assert pitch(heard) == pytest.approx(440, abs=10)


def test_another_tempo_counts_as_it_sounds():
    events = events_of(speak(speed=0.5, response_format="pcm", stream_format="sse"))

    assert events[-1][1]["usage"]["output_tokens"] == 12


def test_a_model_with_a_choice_of_speeds_is_told_the_speed():
    pipeline, task = FakePipeline(), replace(TASK, honours=frozenset({"speed"}))
    order = {**ORDER, "speed": 1.5, "response_format": "pcm"}
    response = call(pipeline, "POST", SPEECH, json=order, options={"task": task})

    assert pipeline.submitted[0].payload["speed"] == 1.5
    assert response.content == SPOKEN


def test_events_carry_the_audio_and_end_with_the_usage():
    response = speak(stream_format="sse", response_format="pcm", input="Hello.")
    events = events_of(response)

    assert response.headers["content-type"] == "text/event-stream"
    assert [name for name, _ in events] == ["speech.audio.delta"] * 3 + ["speech.audio.done"]
    audio = b"".join(base64.b64decode(data["audio"]) for _, data in events[:-1])
    assert audio == SPOKEN
    # 6 characters; 0.3 s of audio at 50 ms a token.
    assert events[-1][1] == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 6, "output_tokens": 6, "total_tokens": 12},
    }


def test_a_long_chunk_is_split_over_several_events():
    async def long(_request):
        yield chunk(100_000)

    response = speak(FakePipeline(long), stream_format="sse", response_format="pcm")
    audio = [data["audio"] for name, data in events_of(response) if name == "speech.audio.delta"]

    assert max(len(piece) for piece in audio) < 2**15 + 1
    assert b"".join(map(base64.b64decode, audio)) == pcm16(samples(100_000))


def test_the_stages_get_the_request_as_the_runtime_expects_it():
    pipeline = FakePipeline()
    reference = base64.b64encode(b"RIFF").decode()
    speak(pipeline, voice="bob", instructions="Whisper.", language="de", reference=reference)

    (request,) = pipeline.submitted
    assert (request.task, request.outputs) == ("speech", {"audio"})
    assert request.inputs == {"text", "audio"}
    assert request.payload == {
        "text": "Good morning.",
        "voice": "bob",
        "instructions": "Whisper.",
        "speed": None,
        "top_k": 50,
        "temperature": None,
        "language": "de",
        "greedy": False,
        "reference": b"RIFF",
    }


@pytest.mark.parametrize(
    ("voice", "expected"), [({}, "ada"), ({"voice": "default"}, "ada"), ({"voice": None}, "ada")]
)
def test_without_a_voice_the_first_one_speaks(voice, expected):
    pipeline = FakePipeline()
    speak(pipeline, **voice)

    assert pipeline.submitted[0].inputs == {"text"}
    assert pipeline.submitted[0].payload["voice"] == expected


def test_a_voice_may_be_an_object_with_an_id():
    pipeline = FakePipeline()
    speak(pipeline, voice={"id": "bob"})

    assert pipeline.submitted[0].payload["voice"] == "bob"


def test_output_that_is_not_audio_is_not_spoken():
    async def with_text(_request):
        yield type(chunk())(modality="text", data="Good", sample_rate=None)
        yield chunk(7200)

    assert speak(FakePipeline(with_text), response_format="pcm").content == SPOKEN


@pytest.mark.parametrize("stream_format", [None, "audio", "sse"])
@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.InvalidRequestError("Odd.", field="language"), 400, "invalid_request_error"),
        (errors.DeadlineError("Too late."), 504, "server_error"),
        (errors.StageDiedError("Died.", field="talker"), 502, "server_error"),
        (errors.StageFailedError("Failed.", field="talker"), 500, "server_error"),
    ],
)
def test_an_error_before_the_first_chunk_decides_the_status(error, status, kind, stream_format):
    response = speak(FakePipeline(failing(error, after=0)), stream_format=stream_format)

    assert response.status_code == status
    assert response.json()["error"] == {
        "message": error.message,
        "type": kind,
        "param": error.field,
        "code": error.code,
    }


def test_a_whole_answer_that_fails_late_is_an_error_too():
    error = errors.StageFailedError("Failed.")

    assert speak(FakePipeline(failing(error, after=2))).status_code == 500


def test_events_that_fail_late_end_with_an_error_event():
    error = errors.StageFailedError("The talker failed.", field="talker")
    response = speak(FakePipeline(failing(error, after=2)), stream_format="sse")
    events = events_of(response)

    assert response.status_code == 200
    assert [name for name, _ in events] == ["speech.audio.delta"] * 2 + ["error"]
    assert events[-1][1]["error"]["message"] == "The talker failed."


@pytest.mark.parametrize(
    "refusal",
    [
        errors.QueueFullError("Full.", retry_after=3),
        errors.DrainingError("Stopping.", retry_after=3),
    ],
)
def test_a_refused_request_is_told_when_to_come_back(refusal):
    response = speak(FakePipeline(refusal=refusal))

    assert (response.status_code, response.headers["retry-after"]) == (503, "3")
    assert response.json()["error"]["code"] == refusal.code


def test_a_whole_answer_has_a_limit():
    options = {"max_whole_bytes": 2_000}
    response = call(FakePipeline(), "POST", SPEECH, json=ORDER, options=options)

    assert response.status_code == 400
    assert "stream_format" in response.json()["error"]["message"]


def test_a_deadline_reaches_the_runtime_in_seconds():
    pipeline = FakePipeline()
    call(pipeline, "POST", SPEECH, json=ORDER, headers={"x-omni-deadline-ms": "1500"})

    assert pipeline.submitted[0].deadline_s == 1.5


@pytest.mark.parametrize("deadline", ["0", "-1", "1.5", "soon", "9" * 400, "²", "86400001"])
def test_a_deadline_that_is_none_is_refused(deadline):
    response = call(
        FakePipeline(),
        "POST",
        SPEECH,
        json=ORDER,
        headers={"x-omni-deadline-ms": deadline.encode()},
    )

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "x-omni-deadline-ms"


def test_a_request_id_comes_back_and_reaches_the_stages():
    pipeline = FakePipeline()
    response = call(pipeline, "POST", SPEECH, json=ORDER, headers={"x-request-id": "abc-1"})

    assert response.headers["x-request-id"] == "abc-1"
    assert pipeline.submitted[0].id.startswith("abc-1.")


def test_a_request_id_that_comes_again_is_another_request_to_the_stages():
    pipeline = FakePipeline()
    for _ in range(2):
        call(pipeline, "POST", SPEECH, json=ORDER, headers={"x-request-id": "abc-1"})

    first, second = pipeline.submitted
    assert first.id != second.id


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "ä", "a\tb"])
def test_an_indecent_request_id_is_replaced(given):
    headers = {"x-request-id": given.encode()}
    response = call(FakePipeline(), "POST", SPEECH, json=ORDER, headers=headers)

    assert response.headers["x-request-id"].startswith("req_")


def test_a_fault_of_the_server_is_a_500_without_details():
    response = speak(FakePipeline(failing(RuntimeError("secret path"), after=0)))

    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "secret" not in response.text
    assert response.headers["x-request-id"].startswith("req_")


def events_of(response) -> list[tuple[str, dict]]:
    events = []
    for block in response.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def test_silence_is_spoken_as_silence():
    async def silence(_request):
        yield type(chunk())(modality="audio", data=np.zeros(10, np.float32), sample_rate=RATE)

    assert speak(FakePipeline(silence), response_format="pcm").content == bytes(20)


async def nothing(_request):
    return
    yield


async def only_empty_chunks(_request):
    yield chunk(0)
    yield chunk(0)


@pytest.mark.parametrize("stream_format", [None, "audio", "sse"])
def test_a_stage_that_emits_nothing_is_named(stream_format):
    response = speak(FakePipeline(nothing), stream_format=stream_format)

    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (500, "talker", "OMNI-S004")
    assert error["message"].startswith("Stage 'talker' ended without emitting audio.")
    assert "await job.emit(...)" in error["message"]


@pytest.mark.parametrize("stream_format", [None, "audio", "sse"])
def test_a_text_that_is_silent_is_the_clients_error(stream_format):
    response = speak(FakePipeline(only_empty_chunks), stream_format=stream_format)

    assert response.status_code == 400
    assert response.json()["error"]["message"] == "The model makes no audio of this text."


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            errors.StageFailedError("The talker failed."),
            ["request me: 500 OMNI-S004 The talker failed."],
        ),
        (RuntimeError("a defect"), ["request me: 500 OMNI-X001 RuntimeError: a defect"]),
        (errors.InvalidRequestError("Odd."), []),
    ],
)
def test_what_is_not_the_clients_fault_is_one_line_of_the_log(error, lines, caplog):
    pipeline = FakePipeline(failing(error, after=0))
    call(pipeline, "POST", SPEECH, json=ORDER, headers={"x-request-id": "me"})

    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.getMessage() for record in warnings] == lines
