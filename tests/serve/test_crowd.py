"""Two hundred clients that leave in the middle of a stream."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.serve.calls import SPEECH
from tests.serve.test_openai_client import TOY, serving

CLIENTS = 200
ENDLESS = "la " * 500


@pytest.fixture
def server():
    with serving(max_running=CLIENTS, max_queued=CLIENTS) as running:
        yield running


def connect(url: str) -> socket.socket:
    place = urlsplit(url)
    client = socket.create_connection((place.hostname, place.port), timeout=60)
    order = {**TOY, "input": ENDLESS, "response_format": "pcm", "stream_format": "audio"}
    body = json.dumps(order).encode()
    head = f"POST {SPEECH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return client


def left() -> tuple[int, int, list[int]]:
    """Names in /dev/shm, descriptors here, and descriptors of each stage process."""
    here = psutil.Process()
    shm = Path("/dev/shm")
    names = len(list(shm.iterdir())) if shm.is_dir() else 0
    return names, here.num_fds(), sorted(child.num_fds() for child in here.children())


def leave_together(server) -> None:
    with ExitStack() as clients:
        for _ in range(CLIENTS):
            client = clients.enter_context(connect(server.url))
            assert client.recv(12) == b"HTTP/1.1 200"
    server.wait_until(lambda: all(not stage.inside for stage in server.pipeline.snapshot().stages))


@pytest.mark.slow
def test_two_hundred_clients_that_leave_leave_nothing_behind(server):
    leave_together(server)
    before = left()
    for _ in range(3):
        leave_together(server)
    server.wait_until(lambda: left() == before)
    assert server.pipeline.snapshot().running == 0
