"""One HTTP request and its response: identity, clock, access log, size limit."""

from __future__ import annotations

import logging
import re
import time
import uuid
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omni_host.serve.metrics import Metrics

__all__ = ["REQUEST_ID", "Access", "AccessMiddleware", "access_of"]

REQUEST_ID = "x-request-id"
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

access_log = logging.getLogger("omni_host.access")


@dataclass(slots=True, kw_only=True)
class Access:
    """What is known of a request from its first byte to the last one of its answer.

    `id` is the client's own `x-request-id` where it sent a decent one, so it may come
    again. `status` is what the client was told; `outcome` replaces it in logs and metrics
    when that did not hold: 499 for a client that went away, the error's status for a
    stream that broke.
    """

    id: str
    received: float = field(default_factory=time.perf_counter)
    status: int | None = None
    outcome: int | None = None
    bytes_sent: int = 0

    @property
    def result(self) -> int:
        return self.outcome or self.status or 500


def access_of(request: Request) -> Access:
    return request.scope["omni_host.access"]


class AccessMiddleware:
    """Wraps every HTTP request in an `Access`; a body over the limit is a 413."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, max_body_bytes: int) -> None:
        self.app = app
        self.metrics = metrics
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        access = Access(id=_request_id(Headers(scope=scope)))
        scope["omni_host.access"] = access
        try:
            await self.app(
                scope,
                _limited(scope, receive, self.max_body_bytes),
                _noted(access, send),
            )
        finally:
            self._finished(scope, access)

    def _finished(self, scope: Scope, access: Access) -> None:
        route = getattr(scope.get("route", None), "path", "unmatched")
        self.metrics.http_finished(scope["method"], route, access.result)
        access_log.info(
            "id=%s method=%s path=%r status=%d bytes=%d ms=%.1f",
            access.id,
            scope["method"],
            scope["path"],
            access.result,
            access.bytes_sent,
            1e3 * (time.perf_counter() - access.received),
        )


def _request_id(headers: Headers) -> str:
    given = headers.get(REQUEST_ID, "")
    return given if _ACCEPTED_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"


def _noted(access: Access, send: Send) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            access.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID] = access.id
        else:
            access.bytes_sent += len(message.get("body", b""))
        await send(message)

    return noting


def _limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    declared = _declared_size(Headers(scope=scope))
    received = 0

    async def limiting() -> Message:
        nonlocal received
        if declared > limit:  # before `receive` asks for it with a `100 Continue`
            raise _too_large(limit)
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit)
        return message

    return limiting


def _declared_size(headers: Headers) -> int:
    digits = headers.get("content-length", "0")
    return int(digits[:18]) if digits.isascii() and digits.isdigit() else 0


def _too_large(limit: int) -> HTTPException:
    # The rest of the body is never read, so the connection cannot be used again.
    return HTTPException(413, f"The request body is over {limit} bytes", {"connection": "close"})
