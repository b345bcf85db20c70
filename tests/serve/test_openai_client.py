"""The official client against a server with a pipeline of real processes."""

import asyncio
import base64
import gc
import io
import wave
from pathlib import Path

import httpx
import numpy as np
import openai
import psutil
import pytest

from omni_host.audio import FORMATS, pcm16, wav_header
from omni_host.graph import Edge, Output, StageSpec, Task
from omni_host.runtime import Limits, Pipeline
from tests.runtime.deployments import deploy, plugins
from tests.serve.calls import SPEECH, live
from tests.serve.toy_speech import RATE, tone

TEXT = "a toy says each word as a tone"
SPOKEN = pcm16(np.concatenate([tone(word) for word in TEXT.split()]))
BROKEN = "la " * 9 + "broken"
"""With eight credits the ninth word waits until the first ones have been read."""

TOY = {"model": "toy", "voice": "sine"}


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def serving(**limits):
    task = Task(
        name="speech",
        entry=("words",),
        outputs=(Output(stage="tones", modality="audio", sample_rate=RATE),),
        voices=("sine",),
    )
    deployed = deploy(
        (
            StageSpec(name="words", target="toy_speech:Words"),
            StageSpec(name="tones", target="toy_speech:Tones"),
        ),
        (Edge(source="words", target="tones", kind="stream"),),
        (task,),
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    return live(Pipeline(deployed, plugins(), limits=Limits(**limits)), deployed)


def in_async_client(server, work):
    """Run `work(client)` with the asynchronous client."""

    async def run():
        url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await work(client)

    return asyncio.run(run())


def test_it_speaks_whole(client):
    spoken = client.audio.speech.create(**TOY, input=TEXT, response_format="wav")

    with wave.open(io.BytesIO(spoken.read())) as file:
        assert file.getframerate() == RATE
        assert file.readframes(file.getnframes()) == SPOKEN


def test_it_speaks_whole_asynchronously(server):
    async def work(client):
        return (await client.audio.speech.create(**TOY, input=TEXT, response_format="pcm")).content

    assert in_async_client(server, work) == SPOKEN


def test_it_streams_bytes(client):
    create = client.audio.speech.with_streaming_response.create
    asked = create(**TOY, input=TEXT, response_format="wav", stream_format="audio")
    with asked as response:
        pieces = list(response.iter_bytes())

    assert b"".join(pieces) == wav_header(RATE, None) + SPOKEN


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_starts_before_the_model_has_ended(client, name):
    create = client.audio.speech.with_streaming_response.create
    asked = create(**TOY, input="a forever", response_format=name, stream_format="audio")
    with asked as response:
        assert next(response.iter_bytes())


def test_it_streams_bytes_asynchronously(server):
    async def work(client):
        create = client.audio.speech.with_streaming_response.create
        asked = create(**TOY, input=TEXT, stream_format="audio", response_format="pcm")
        async with asked as response:
            return b"".join([piece async for piece in response.iter_bytes()])

    assert in_async_client(server, work) == SPOKEN


def test_the_first_bytes_come_before_the_model_has_ended(client):
    create = client.audio.speech.with_streaming_response.create
    with create(**TOY, input="a forever", stream_format="audio", response_format="pcm") as response:
        assert next(response.iter_bytes(4800)) == pcm16(tone("a"))


def test_it_streams_events(client):
    events = list(event_stream(client, TEXT))

    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert audio == SPOKEN
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    # Eight words of 0.1 s, at 50 ms a token.
    assert events[-1]["usage"] == {
        "input_tokens": len(TEXT),
        "output_tokens": 16,
        "total_tokens": len(TEXT) + 16,
    }


def test_it_streams_events_asynchronously(server):
    async def work(client):
        stream = await client.post(
            "/audio/speech",
            body={**TOY, "input": TEXT, "stream_format": "sse", "response_format": "pcm"},
            cast_to=dict,
            stream=True,
            stream_cls=openai.AsyncStream[dict],
        )
        return [event async for event in stream]

    *deltas, done = in_async_client(server, work)
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == SPOKEN
    assert done["type"] == "speech.audio.done"


def test_events_that_break_off_are_an_error_of_the_client(client):
    events = event_stream(client, BROKEN)

    assert next(events)["type"] == "speech.audio.delta"
    with pytest.raises(openai.APIError, match="the voice broke"):
        list(events)


def test_bytes_that_break_off_are_an_error_of_the_client(client):
    create = client.audio.speech.with_streaming_response.create
    with create(**TOY, input=BROKEN, stream_format="audio") as response:
        pieces = response.iter_bytes()
        next(pieces)
        with pytest.raises(Exception, match="incomplete chunked read"):
            list(pieces)


def test_errors_are_the_ones_that_the_client_knows(client):
    speak = client.audio.speech.create
    with pytest.raises(openai.NotFoundError) as unknown:
        speak(model="tts-1", voice="sine", input=TEXT)
    with pytest.raises(openai.BadRequestError) as voice:
        speak(model="toy", voice="alloy", input=TEXT)
    with pytest.raises(openai.BadRequestError) as refused:
        speak(**TOY, input="refused")
    with pytest.raises(openai.InternalServerError) as broken:
        speak(**TOY, input="broken")

    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert (voice.value.type, voice.value.param) == ("invalid_request_error", "voice")
    assert refused.value.param == "input"
    assert (broken.value.status_code, broken.value.param) == (500, "tones")


def test_it_lists_and_retrieves_the_model(client):
    (model,) = client.models.list()

    assert client.models.retrieve("toy") == model
    assert (model.id, model.owned_by) == ("toy", "builtin")


def test_a_deadline_is_a_504(client):
    with pytest.raises(openai.InternalServerError) as late:
        client.audio.speech.create(
            **TOY, input="forever", extra_headers={"x-omni-deadline-ms": "50"}
        )

    assert (late.value.status_code, late.value.code) == (504, "OMNI-R006")


def test_a_full_queue_is_a_503_with_the_time_to_wait():
    with serving(max_running=1, max_queued=0) as server, httpx.Client(timeout=60) as client:
        url, sent = server.url + SPEECH, {**TOY, "input": "a forever", "stream_format": "audio"}
        with client.stream("POST", url, json=sent):
            refused = client.post(url, json=sent)

    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1


def test_two_hundred_clients_leave_in_mid_stream_and_nothing_is_left():
    async def leave(client, url):
        sent = {**TOY, "input": "a " * 1000, "stream_format": "audio"}
        async with client.stream("POST", url, json=sent) as response:
            await anext(response.aiter_raw())

    async def all_leave(url):
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            await asyncio.gather(*(leave(client, url) for _ in range(200)))

    def held() -> bool:
        snapshot = server.pipeline.snapshot()
        return bool(snapshot.running or any(stage.inside for stage in snapshot.stages))

    with serving(max_running=200) as server:
        asyncio.run(all_leave(server.url + SPEECH))
        server.wait_until(lambda: not held())
        gc.collect()
        descriptors = psutil.Process().num_fds()
        asyncio.run(all_leave(server.url + SPEECH))
        server.wait_until(lambda: not held())
        server.wait_until(lambda: psutil.Process().num_fds() == descriptors)


def event_stream(client, text):
    return client.post(
        "/audio/speech",
        body={**TOY, "input": text, "stream_format": "sse", "response_format": "pcm"},
        cast_to=dict,
        stream=True,
        stream_cls=openai.Stream[dict],
    )
