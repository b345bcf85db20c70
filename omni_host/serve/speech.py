"""`POST /v1/audio/speech`."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omni_host import runtime
from omni_host.audio import FORMATS
from omni_host.deployment import Deployment
from omni_host.errors import InvalidRequestError
from omni_host.graph import Task
from omni_host.runtime import Pipeline
from omni_host.serve.access import access_of
from omni_host.serve.body import read_object
from omni_host.serve.errors import ERROR_RESPONSES
from omni_host.serve.field_errors import quoted
from omni_host.serve.metrics import Metrics
from omni_host.serve.options import ServeOptions
from omni_host.serve.speech_request import SpeechForm, SpeechOrder
from omni_host.serve.speech_response import SpeechResponse

__all__ = ["speech_router"]

DEADLINE = "x-omni-deadline-ms"
MAX_DEADLINE_MS = 86_400_000

_DIGITS = re.compile(r"[0-9]{1,8}")
_numbers = count(1)

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_EVENTS = {
    "schema": {"type": "string"},
    "example": "event: speech.audio.delta\n"
    'data: {"type": "speech.audio.delta", "audio": "UklG"}\n\n'
    "event: speech.audio.done\n"
    'data: {"type": "speech.audio.done", "usage": '
    '{"input_tokens": 20, "output_tokens": 31, "total_tokens": 51}}\n\n',
}
_MEDIA_TYPES = [chosen.media_type(24_000).partition(";")[0] for chosen in FORMATS.values()]
_SPOKEN: dict[str, Any] = {
    "description": "The audio, mono at the model's rate or, where the format has other rates, "
    "a higher one (`pcm`: signed 16-bit little-endian). "
    "As events, `audio` is base64 of what the stream of bytes would carry. `usage` counts "
    "the characters of the input, and 50 ms of audio as one output token.",
    "content": {**dict.fromkeys(_MEDIA_TYPES, _BINARY), "text/event-stream": _EVENTS},
}
_HEADERS = [
    {
        "name": "x-request-id",
        "in": "header",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,64}$"},
        "description": "Comes back in the response and stands in the logs.",
    },
    {
        "name": DEADLINE,
        "in": "header",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_DEADLINE_MS},
        "description": "The request is given up, with a 504, after so many milliseconds.",
    },
]


def speech_router(
    pipeline: Pipeline, deployment: Deployment, task: Task, metrics: Metrics, options: ServeOptions
) -> APIRouter:
    form = SpeechForm(deployment.name, task, deployment.aliases)
    router = APIRouter(tags=["audio"])
    body = {"required": True, "content": {"application/json": {"schema": form.schema()}}}

    @router.post(
        "/v1/audio/speech",
        summary="Speak a text",
        response_class=Response,
        responses={200: _SPOKEN, **ERROR_RESPONSES},
        openapi_extra={"requestBody": body, "parameters": _HEADERS},
    )
    async def speak(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        order = await read_object(request, form.read)
        asked = _runtime_request(request, order, task)
        return SpeechResponse(
            submit=lambda: pipeline.submit(asked),
            order=order,
            task=task,
            access=access_of(request),
            metrics=metrics,
            options=options,
        )

    return router


def _runtime_request(request: Request, order: SpeechOrder, task: Task) -> runtime.Request:
    return runtime.Request(
        id=f"{access_of(request).id}.{next(_numbers)}",
        task=task.name,
        payload=order.payload,
        inputs=order.inputs,
        outputs=frozenset({"audio"}),
        deadline_s=_deadline_s(request.headers.get(DEADLINE)),
    )


def _deadline_s(header: str | None) -> float | None:
    if header is None:
        return None
    if not (_DIGITS.fullmatch(header) and 1 <= int(header) <= MAX_DEADLINE_MS):
        raise InvalidRequestError(
            f"{DEADLINE} must be whole milliseconds from 1 to {MAX_DEADLINE_MS}, "
            f"not {quoted(header)}.",
            field=DEADLINE,
        )
    return int(header) / 1e3
