import asyncio
import os
import signal
import socket

import httpx
import pytest

from omni_host.errors import StageStartError, UsageError
from omni_host.serve import ServeOptions, Server
from tests.serve.calls import ORDER, SPEECH, application, request_bytes
from tests.serve.fake_pipeline import FakePipeline, chunk, silent


class Run:
    """A server in this loop, and what it told."""

    def __init__(self, pipeline: FakePipeline, **options) -> None:
        self.pipeline = pipeline
        self.listening = asyncio.Event()
        self.ready = asyncio.Event()
        self.draining = asyncio.Event()
        self.url = ""
        self.server = Server(
            application(pipeline),
            pipeline,
            ServeOptions(**{"port": 0, **options}),
            on_listening=self._listens,
            on_ready=lambda _url: self.ready.set(),
            on_draining=self.draining.set,
        )

    def _listens(self, url: str) -> None:
        self.url = url
        self.listening.set()

    async def __aenter__(self):
        self.running = asyncio.create_task(self.server.run())
        self.client = httpx.AsyncClient(timeout=60)
        await self.listening.wait()
        return self

    async def __aexit__(self, *_exception) -> None:
        await self.client.aclose()
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(self.url + path)

    async def speak(self, **fields) -> httpx.Response:
        return await self.client.post(self.url + SPEECH, json={**ORDER, **fields})


def signalled(number: int) -> None:
    os.kill(os.getpid(), number)


def test_it_listens_on_this_machine_alone_unless_told():
    assert ServeOptions().host == "127.0.0.1"


def test_it_answers_while_the_stages_load():
    async def scenario():
        pipeline = FakePipeline()
        pipeline.may_start.clear()
        async with Run(pipeline) as run:
            assert (await run.get("/health")).status_code == 200
            assert (await run.get("/ready")).status_code == 503
            pipeline.may_start.set()
            await run.ready.wait()
            assert (await run.get("/ready")).status_code == 200

    asyncio.run(scenario())


def test_a_stage_that_does_not_start_ends_the_server_with_its_error():
    async def scenario():
        pipeline = FakePipeline()
        pipeline.start_error = StageStartError("The talker did not start.", field="talker")
        async with Run(pipeline) as run:
            with pytest.raises(StageStartError):
                await run.running

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(number):
    async def scenario():
        release = asyncio.Event()

        async def held(_request):
            yield chunk()
            await release.wait()
            yield chunk()

        async with Run(FakePipeline(held), drain_s=50) as run:
            await run.ready.wait()
            speaking = asyncio.create_task(run.speak())
            await run.pipeline.opened.wait()
            signalled(number)
            await run.draining.wait()

            ready, refused = await run.get("/ready"), await run.speak()
            assert (ready.status_code, refused.status_code) == (503, 503)
            assert refused.headers["retry-after"] == "5"

            release.set()
            assert (await speaking).status_code == 200
            await run.running
            assert run.pipeline.stops == [50]

    asyncio.run(scenario())


def test_a_second_signal_does_not_wait():
    async def scenario():
        async with Run(FakePipeline(silent), drain_s=50) as run:
            await run.ready.wait()
            speaking = asyncio.create_task(run.speak())
            await run.pipeline.opened.wait()
            signalled(signal.SIGTERM)
            await run.draining.wait()
            signalled(signal.SIGTERM)
            await run.running

            assert run.pipeline.stops == [50, 0]
            assert (await speaking).status_code == 503

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_does_not_delay_a_hurried_end(caplog):
    async def eager(_request):
        while True:
            yield chunk(24_000)

    async def scenario():
        async with Run(FakePipeline(eager), drain_s=50) as run:
            await run.ready.wait()
            with socket.create_connection(address_of(run.url)) as client:
                client.sendall(request_bytes(stream_format="audio"))
                await run.pipeline.opened.wait()
                run.server.stop()
                await run.draining.wait()
                run.server.stop()
                await run.running

    asyncio.run(scenario())
    assert "Traceback" not in caplog.text


def test_a_signal_while_the_stages_load_ends_it():
    async def scenario():
        pipeline = FakePipeline()
        pipeline.may_start.clear()
        async with Run(pipeline) as run:
            signalled(signal.SIGINT)
            await run.running
            assert not run.ready.is_set()

    asyncio.run(scenario())


def test_an_idle_connection_does_not_delay_the_end():
    async def scenario():
        async with Run(FakePipeline()) as run:
            await run.ready.wait()
            _, writer = await asyncio.open_connection(*address_of(run.url))
            run.server.stop()
            await run.running
            writer.close()

    asyncio.run(scenario())


def test_a_port_in_use_is_an_error_with_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as caught:
            run_once(port=port)

    assert str(port) in caught.value.message
    assert caught.value.hint == f"--port {port + 1}"


@pytest.mark.parametrize(
    "host", ["256.1.1.1", "no.such.host.invalid", "\x00", "a" * 300, "192.0.2.1"]
)
def test_a_host_that_is_no_address_of_this_machine_is_an_error(host):
    with pytest.raises(UsageError):
        run_once(host=host)


def test_an_address_that_others_reach_is_warned_of(caplog):
    async def scenario():
        async with Run(FakePipeline(), host="0.0.0.0") as run:
            run.server.stop()
            await run.running

    asyncio.run(scenario())
    assert "0.0.0.0" in caplog.text


def test_ipv6_is_fine_where_there_is_any():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")

    async def scenario():
        async with Run(FakePipeline(), host="::1") as run:
            assert run.url.startswith("http://[::1]:")
            assert (await run.get("/health")).status_code == 200

    asyncio.run(scenario())


def test_each_request_is_one_line_of_the_access_log(caplog):
    caplog.set_level("INFO", logger="omni_host.access")

    async def scenario():
        async with Run(FakePipeline()) as run:
            await run.ready.wait()
            await run.client.get(run.url + "/nothing%0Aat all", headers={"x-request-id": "abc-1"})

    asyncio.run(scenario())
    (line,) = [record.getMessage() for record in caplog.records if "access" in record.name]
    assert line.startswith("id=abc-1 method=GET path='/nothing\\nat all' status=404 bytes=")


def run_once(**options) -> None:
    async def scenario():
        pipeline = FakePipeline()
        options_ = ServeOptions(**options)
        await Server(application(pipeline), pipeline, options_).run()

    asyncio.run(scenario())


def address_of(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)
