"""Runs the API beside a pipeline in one event loop, from start to a drained end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator

import uvicorn
from starlette.types import ASGIApp

from omni_host.errors import UsageError
from omni_host.runtime import Pipeline, StageProgress
from omni_host.serve.interruption import run_unless
from omni_host.serve.options import ServeOptions

__all__ = ["Server"]

log = logging.getLogger(__name__)

BACKLOG = 2048
CLOSE_SECONDS = 5
"""How long connections may take to send what is left once the pipeline has stopped."""


class Server:
    """`await Server(app, pipeline, options).run()` serves until SIGTERM or SIGINT.

    The API answers while the stages load (`/ready` says 503). The first signal drains:
    new requests get a 503, those that run have `options.drain_s` to end. A second one
    cuts that short.
    """

    def __init__(
        self,
        app: ASGIApp,
        pipeline: Pipeline,
        options: ServeOptions,
        *,
        progress: Callable[[StageProgress], None] | None = None,
        on_listening: Callable[[str], None] | None = None,
        on_ready: Callable[[str], None] | None = None,
        on_draining: Callable[[], None] | None = None,
    ) -> None:
        """`on_listening` and `on_ready` are called with the URL of the API."""
        self._app = app
        self._pipeline = pipeline
        self._options = options
        self._progress = progress
        self._on_listening = on_listening
        self._on_ready = on_ready
        self._on_draining = on_draining
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def stop(self) -> None:
        """What a signal does: drain, and when called again, do not wait any longer."""
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def run(self) -> None:
        """Serve until stopped.

        Raises UsageError if the address cannot be had, and what `Pipeline.start` raises.
        """
        listener, url = _listen(self._options.host, self._options.port)
        http = _HttpServer(self._app)
        with self._signals(), _quiet_uvicorn():
            serving = asyncio.create_task(http.serve(sockets=[listener]))
            serving.add_done_callback(lambda _: self._stop.set())
            try:
                await http.listening.wait()
                _call(self._on_listening, url)
                if await run_unless(self._stop.wait(), self._pipeline.start(self._progress)):
                    _call(self._on_ready, url)
                    await self._stop.wait()
                    _call(self._on_draining)
            finally:
                await self._drain()
                http.should_exit = True
                http.force_exit = self._hurry.is_set()
                await serving
                await http.abandon()

    async def _drain(self) -> None:
        if not await run_unless(self._hurry.wait(), self._pipeline.stop(self._options.drain_s)):
            await self._pipeline.stop(0)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # Only the main thread gets signals; elsewhere `stop` is called.
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for number in caught:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers and logging, and with an event once it listens."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self.listening = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.listening.set()  # whoever waits for it must not wait for ever

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def abandon(self) -> None:
        """End what clients have not taken in time."""
        tasks = tuple(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _listen(host: str, port: int) -> tuple[socket.socket, str]:
    """A listening socket and its URL. Bound here, so that a busy port stops the start at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"The host '{host}' is no address: {error}.", hint="--host 127.0.0.1"
        ) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _refused(host, port, error) from None
    taken = listener.getsockname()
    if not ipaddress.ip_address(taken[0]).is_loopback:
        log.warning("listening on %s: whoever reaches this machine can use the API", taken[0])
    shown = f"[{host}]" if ":" in host else host
    return listener, f"http://{shown}:{taken[1]}"


def _refused(host: str, port: int, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(f"Port {port} of {host} is in use.", hint=f"--port {port + 1}")
    return UsageError(
        f"Cannot listen on {host}:{port}: {error.strerror}.", hint="--host 127.0.0.1 --port 8000"
    )


@contextlib.contextmanager
def _quiet_uvicorn() -> Generator[None]:
    """Streams that broke off or were abandoned are told of where the cause is known."""
    logger = logging.getLogger("uvicorn.error")

    def is_news(record: logging.LogRecord) -> bool:
        cause = record.exc_info[1] if record.exc_info else None
        if isinstance(cause, asyncio.CancelledError):
            return False
        return "without completing response" not in record.getMessage()

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


def _call(listener: Callable[..., None] | None, *arguments: str) -> None:
    if listener is not None:
        listener(*arguments)
