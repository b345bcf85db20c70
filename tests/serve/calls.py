"""Ways to reach the API in a test: in the same loop, or over a socket from a thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from omni_host.serve import Metrics, ServeOptions, Server, create_app
from tests.serve.fake_pipeline import FakePipeline, deployment

SPEECH = "/v1/audio/speech"
ORDER = {"model": "toy/talker", "input": "Good morning."}


def application(pipeline: FakePipeline, **options: Any):
    task = options.pop("task", None)
    deployed = deployment(task) if task else deployment()
    return create_app(pipeline, deployed, ServeOptions(**options), metrics=Metrics())


def call(
    pipeline: FakePipeline, method: str, path: str, *, options: dict[str, Any] | None = None, **sent
) -> httpx.Response:
    """One request, without a socket."""
    return call_app(application(pipeline, **(options or {})), method, path, **sent)


def call_app(app: Any, method: str, path: str, **sent: Any) -> httpx.Response:
    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            return await client.request(method, path, **sent)

    return asyncio.run(exchange())


def speak(pipeline: FakePipeline | None = None, **fields: Any) -> httpx.Response:
    return call(pipeline or FakePipeline(), "POST", SPEECH, json={**ORDER, **fields})


def request_bytes(**fields) -> bytes:
    """A speech request as it goes over a socket."""
    body = json.dumps({**ORDER, **fields}).encode()
    head = (
        f"POST {SPEECH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Live:
    """A server that listens, in a thread of its own."""

    url: str
    loop: asyncio.AbstractEventLoop
    server: Server
    pipeline: Any
    metrics: Metrics

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def pause(self, seconds: float) -> None:
        self.run(lambda: asyncio.sleep(seconds))

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(60)

    def wait_until(self, true: Callable[[], bool]) -> None:
        async def poll() -> None:
            async with asyncio.timeout(60):
                while not true():  # noqa: ASYNC110 (the fakes announce nothing)
                    await asyncio.sleep(0.005)

        self.run(poll)


@contextmanager
def live(pipeline: Any, deployed: Any = None, **options: Any) -> Iterator[Live]:
    """Serve `pipeline` on a free port until the block is left."""
    metrics = Metrics()
    serve_options = ServeOptions(port=0, **options)
    app = create_app(pipeline, deployed or deployment(), serve_options, metrics=metrics)
    ready: Future[tuple[str, asyncio.AbstractEventLoop]] = Future()

    def is_ready(url: str) -> None:
        ready.set_result((url, asyncio.get_running_loop()))

    server = Server(app, pipeline, serve_options, on_ready=is_ready)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lambda: asyncio.run(server.run()))
        wait((ready, running), return_when=FIRST_COMPLETED)
        if not ready.done():
            running.result()
        url, loop = ready.result()
        try:
            yield Live(url=url, loop=loop, server=server, pipeline=pipeline, metrics=metrics)
        finally:
            loop.call_soon_threadsafe(server.stop)
            running.result()
