"""Every error leaves the server in OpenAI's shape, whatever raised it.

`{"error": {"message", "type", "param", "code"}}`, where `code` is `model_not_found`
as at OpenAI, or the stable code of `omni_host.errors`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from omni_host.errors import (
    CancelledError,
    OmniError,
    QueueFullError,
    UnknownModelError,
)
from omni_host.serve.access import REQUEST_ID, access_of
from omni_host.serve.field_errors import invalid_fields, quoted

__all__ = [
    "ERROR_RESPONSES",
    "ErrorBody",
    "error_data",
    "handle_errors",
]

log = logging.getLogger(__name__)

_HTTP_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
}


class ErrorDetail(BaseModel):
    """What went wrong, for people (`message`) and for programs (`code`, `param`)."""

    message: str
    type: str = Field(examples=["invalid_request_error"])
    param: str | None = Field(description="The request field at fault.", examples=["voice"])
    code: str | None = Field(examples=["OMNI-R002"])


class ErrorBody(BaseModel):
    """OpenAI's error shape."""

    error: ErrorDetail


_RETRY_AFTER: dict[str, Any] = {
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "schema": {"type": "integer"},
    }
}

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "A field is wrong; `param` names it."},
    404: {"model": ErrorBody, "description": "There is no such model or path."},
    413: {"model": ErrorBody, "description": "The request body is too large."},
    415: {"model": ErrorBody, "description": "The request body is not JSON."},
    500: {"model": ErrorBody, "description": "A stage failed."},
    502: {"model": ErrorBody, "description": "A stage died with the request inside."},
    503: {
        "model": ErrorBody,
        "description": "The queue is full, or the server is starting or stopping.",
        "headers": _RETRY_AFTER,
    },
    504: {"model": ErrorBody, "description": "The deadline passed."},
    "default": {"model": ErrorBody, "description": "Any other error."},
}


def error_data(error: OmniError) -> dict[str, Any]:
    """`{"error": ...}` of an error of ours."""
    message = f"{error.message} {error.hint}" if error.hint else error.message
    code = "model_not_found" if isinstance(error, UnknownModelError) else error.code
    return _shape(message, status=error.http_status, param=error.field, code=code)


def handle_errors(app: FastAPI) -> None:
    """Answer every exception that a route raises before its response has started."""
    app.add_exception_handler(OmniError, _omni_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


def _shape(message: str, *, status: int, param: str | None, code: str) -> dict[str, Any]:
    return {
        "error": {
            "message": _encodable(message),
            "type": "invalid_request_error" if status < 500 else "server_error",
            "param": None if param is None else _encodable(param),
            "code": code,
        }
    }


def _encodable(text: str) -> str:
    """JSON may smuggle lone surrogates in, and UTF-8 cannot carry them out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _log_failure(request: Request, status: int, code: str, message: str) -> None:
    """One line for what is not the client's fault; a traceback, if any, is told elsewhere."""
    if status >= 500:
        first, *_ = message.splitlines() or [""]
        log.warning("request %s: %d %s %s", access_of(request).id, status, code, first)


async def _omni_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OmniError)
    _log_failure(request, error.http_status, error.code, error.message)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, QueueFullError) else None
    return JSONResponse(error_data(error), status_code=error.http_status, headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code in (404, 405):
        message = f"{message}: {request.method} {quoted(request.url.path)}. See /openapi.json."
    code = _HTTP_CODES.get(error.status_code, f"http_{error.status_code}")
    _log_failure(request, error.status_code, code, message)
    headers: Mapping[str, str] | None = error.headers
    body = _shape(message, status=error.status_code, param=None, code=code)
    return JSONResponse(body, status_code=error.status_code, headers=headers)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    detail = ErrorDetails(
        type=first["type"], loc=tuple(first["loc"][1:]), msg=first["msg"], input=first.get("input")
    )
    return await _omni_error(request, invalid_fields([detail]))


async def _gone(_request: Request, _error: Exception) -> Response:
    """The client went away before its body had come; nobody reads this."""
    return Response(status_code=CancelledError.http_status)


async def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of the server's own. Starlette raises it again, so the log has the traceback."""
    _log_failure(request, 500, OmniError.code, f"{type(error).__name__}: {error}")
    body = _shape("Internal server error.", status=500, param=None, code=OmniError.code)
    # This answer goes past the middleware that would add the id.
    headers = {REQUEST_ID: access_of(request).id}
    return JSONResponse(body, status_code=500, headers=headers)
