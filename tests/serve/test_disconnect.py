"""A client that goes away ends its generation, whatever it was waiting for."""

import socket

import pytest

from omni_host.errors import StageFailedError
from tests.serve.calls import SPEECH, live, request_bytes
from tests.serve.fake_pipeline import FakePipeline, chunk, failing, silent, without_end

WAYS = {"whole": {}, "bytes": {"stream_format": "audio"}, "events": {"stream_format": "sse"}}


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def outcome(server, status: int) -> bool:
    """Whether /metrics tells of a speech request that ended so."""
    value = server.metric(
        "omni_http_requests_total", method="POST", route=SPEECH, status=str(status)
    )
    return value == 1


@pytest.mark.parametrize("fields", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("script", [silent, without_end])
def test_leaving_cancels_the_generation(script, fields):
    with live(FakePipeline(script)) as server:
        with connect(server.url) as client:
            client.sendall(request_bytes(**fields))
            server.wait_until(lambda: bool(server.pipeline.open))
            if script is without_end and fields:
                client.recv(1)
        server.wait_until(lambda: not server.pipeline.open)

        assert len(server.pipeline.cancelled) == 1
        server.wait_until(lambda: outcome(server, 499))


def test_leaving_before_the_body_has_come_submits_nothing():
    with live(FakePipeline()) as server:
        with connect(server.url) as client:
            client.sendall(request_bytes()[:-5])
        server.wait_until(lambda: outcome(server, 499))

        assert not server.pipeline.submitted


def test_many_clients_leave_and_nothing_is_left():
    with live(FakePipeline(without_end)) as server:
        clients = [connect(server.url) for _ in range(50)]
        for client in clients:
            client.sendall(request_bytes(stream_format="audio"))
        for client in clients:
            client.recv(1)
        server.wait_until(lambda: len(server.pipeline.open) == 50)
        for client in clients:
            client.close()
        server.wait_until(lambda: not server.pipeline.open)

        assert len(server.pipeline.cancelled) == 50


def test_a_stream_of_bytes_that_fails_is_cut_off_where_the_client_notices():
    with live(FakePipeline(failing(StageFailedError("Failed."), after=2))) as server:
        with connect(server.url) as client:
            client.sendall(request_bytes(stream_format="audio"))
            received = b""
            while piece := client.recv(65536):
                received += piece
        server.wait_until(lambda: outcome(server, 500))

    assert received.startswith(b"HTTP/1.1 200")
    assert not received.endswith(b"0\r\n\r\n")


def test_a_client_that_does_not_read_holds_the_model_back():
    made = 0

    async def eager(_request):
        nonlocal made
        while True:
            made += 1
            yield chunk(24_000)

    with live(FakePipeline(eager)) as server, connect(server.url) as client:
        client.sendall(request_bytes(stream_format="audio"))
        server.wait_until(lambda: made > 0)
        client.recv(1)
        before = -1
        while before != made:
            before = made
            server.pause(0.1)

        # 48 kB a chunk; a socket's buffers take some megabytes and no more.
        assert made < 1000


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_a_client_that_never_reads_loses_its_stream(stream_format):
    async def eager(_request):
        while True:
            yield chunk(24_000)

    with live(FakePipeline(eager), stall_timeout_s=0.2) as server, connect(server.url) as client:
        client.sendall(request_bytes(stream_format=stream_format))
        server.wait_until(lambda: bool(server.pipeline.submitted))
        server.wait_until(lambda: not server.pipeline.open)

        assert len(server.pipeline.cancelled) == 1
