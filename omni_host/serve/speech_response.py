"""Sends the audio of one generation: whole, as a stream of bytes, or as events."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omni_host.errors import CancelledError, InvalidRequestError, OmniError
from omni_host.graph import Task
from omni_host.runtime import Generation, OutputChunk
from omni_host.serve import sse
from omni_host.serve.access import Access
from omni_host.serve.interruption import client_left, run_unless
from omni_host.serve.metrics import Metrics
from omni_host.serve.options import ServeOptions
from omni_host.serve.playback import Playback
from omni_host.serve.rendering import Rendering
from omni_host.serve.speech_request import SpeechOrder, no_audio

__all__ = ["SpeechResponse"]

log = logging.getLogger(__name__)

TOKEN_SECONDS = 0.05
"""OpenAI counts spoken audio at one token for 50 ms."""


class SpeechResponse(Response):
    """Submits the request and answers with its audio.

    The status is decided by the first chunk: an error before it is raised, and answered
    like any other. One after it ends events with an `error` event and cuts a stream of
    bytes off, which every client notices. A client that goes away ends the generation.
    """

    def __init__(
        self,
        *,
        submit: Callable[[], Generation],
        order: SpeechOrder,
        task: Task,
        access: Access,
        metrics: Metrics,
        options: ServeOptions,
    ) -> None:
        super().__init__()
        self._submit = submit
        self._order = order
        self._task = task
        self._access = access
        self._metrics = metrics
        self._options = options
        self._playback = Playback()
        self._is_handed_out = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_unless(client_left(receive), self._deliver(send)):
            self._access.outcome = CancelledError.http_status

    async def _deliver(self, send: Send) -> None:
        async with self._submit() as generation, aclosing(_audio(generation)) as chunks:
            first = await self._first(chunks)
            assert first.sample_rate is not None
            rendering = Rendering(self._order, first.sample_rate)
            if self._order.delivery == "whole":
                await self._send_whole(first, chunks, rendering, send)
            else:
                await self._send_stream(first, chunks, rendering, send)

    async def _first(self, chunks: AsyncIterator[OutputChunk]) -> OutputChunk:
        emitted = False
        async for chunk in chunks:
            if len(chunk.data):
                return chunk
            emitted = True
        raise no_audio(self._task, emitted=emitted)

    async def _send_whole(
        self,
        first: OutputChunk,
        chunks: AsyncIterator[OutputChunk],
        rendering: Rendering,
        send: Send,
    ) -> None:
        await self._render(first, rendering)
        async for chunk in chunks:
            await self._render(chunk, rendering)
            if rendering.size > self._options.max_whole_bytes:
                raise InvalidRequestError(
                    f"The audio is over {self._options.max_whole_bytes} bytes.",
                    hint="Ask for stream_format 'audio'.",
                    field="input",
                )
        body = await rendering.finish()
        await self._start(send, first, {"content-length": str(len(body))})
        self._handed_out()
        await send({"type": "http.response.body", "body": body, "more_body": False})
        self._spoken()

    async def _send_stream(
        self,
        first: OutputChunk,
        chunks: AsyncIterator[OutputChunk],
        rendering: Rendering,
        send: Send,
    ) -> None:
        audio = await self._render(first, rendering)
        await self._start(send, first, {"cache-control": "no-store", "x-accel-buffering": "no"})
        is_sse = self._order.delivery == "sse"
        try:
            await self._put(send, audio)
            async for chunk in chunks:
                await self._put(send, await self._render(chunk, rendering))
            await self._put(send, await rendering.finish())
            await self._write(send, sse.event(self._done()) if is_sse else b"", more=False)
        except OmniError as error:
            self._access.outcome = error.http_status
            log.warning("request %s broke off: %s", self._access.id, error)
            # Bytes have no place for an error. Left unfinished, the server closes the
            # connection without the last chunk that would make the response look whole.
            if is_sse and not isinstance(error, CancelledError):
                with suppress(CancelledError):
                    await self._write(send, sse.error_event(error), more=False)
        else:
            self._spoken()

    async def _start(self, send: Send, first: OutputChunk, headers: dict[str, str]) -> None:
        assert first.sample_rate is not None
        media = self._order.format.media_type(first.sample_rate)
        headers["content-type"] = "text/event-stream" if self._order.delivery == "sse" else media
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _put(self, send: Send, audio: bytes) -> None:
        if not audio:
            return
        self._handed_out()
        frames: Iterable[bytes] = (audio,)
        if self._order.delivery == "sse":
            frames = sse.audio_events(audio)
        began = time.perf_counter()
        for frame in frames:
            await self._write(send, frame)
        self._playback.waited(time.perf_counter() - began)

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(self._options.stall_timeout_s):
                await send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise CancelledError(
                f"The client took nothing for {self._options.stall_timeout_s:g} s."
            ) from None

    async def _render(self, chunk: OutputChunk, rendering: Rendering) -> bytes:
        assert chunk.sample_rate is not None
        seconds = len(chunk.data) / chunk.sample_rate / self._order.tempo
        self._playback.chunk(time.perf_counter(), seconds)
        return await rendering.write(chunk.data)

    def _handed_out(self) -> None:
        if self._is_handed_out:
            return
        self._is_handed_out = True
        seconds = time.perf_counter() - self._access.received
        self._metrics.first_audio(self._order.delivery, seconds)

    def _spoken(self) -> None:
        # A client that takes its time does not make the model slower.
        seconds = time.perf_counter() - self._access.received - self._playback.waited_s
        self._metrics.spoken(self._order.delivery, self._playback, seconds)

    def _done(self) -> dict[str, Any]:
        payload = self._order.payload
        heard = len(payload["text"]) + len(payload["instructions"] or "")
        spoken = math.ceil(round(self._playback.audio_s / TOKEN_SECONDS, 6))
        usage = {
            "input_tokens": heard,
            "output_tokens": spoken,
            "total_tokens": heard + spoken,
        }
        return {"type": "speech.audio.done", "usage": usage}


async def _audio(generation: Generation) -> AsyncGenerator[OutputChunk]:
    async for chunk in generation:
        if chunk.modality == "audio":
            yield chunk
        # Chunks that are there already need no wait; the loop must see a client leave still.
        await asyncio.sleep(0)
