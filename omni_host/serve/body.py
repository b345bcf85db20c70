"""A JSON body, read strictly: what a parser would quietly repair is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from omni_host.errors import InvalidRequestError
from omni_host.serve.field_errors import quoted

__all__ = ["parse_object", "read_object"]

T = TypeVar("T")

_THREAD_BYTES = 2**18
"""Larger bodies are parsed and checked beside the event loop, for the sake of running streams."""


async def read_object(request: Request, check: Callable[[dict[str, Any]], T]) -> T:
    """What `check` makes of the request's JSON object.

    Raises InvalidRequestError, HTTPException 415 for another content type, and
    whatever `check` raises.
    """
    _check_content_type(request)
    body = await request.body()
    if len(body) > _THREAD_BYTES:
        return await asyncio.to_thread(lambda: check(parse_object(body)))
    return check(parse_object(body))


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse UTF-8 JSON that must be an object.

    Refused with InvalidRequestError: other encodings, duplicate keys, NaN and infinities,
    integers and nesting beyond what Python parses.
    """
    try:
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_not_json
        )
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"The body is not UTF-8: byte {error.start}.") from None
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise InvalidRequestError(f"The body is not JSON: {error}.") from None
    except ValueError as error:
        raise InvalidRequestError(f"The body has a number out of range: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("The body must be a JSON object.")
    return value  # pyright: ignore[reportUnknownVariableType]


def _check_content_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(
            415,
            f"The content type must be application/json, not {quoted(kind) if kind else 'none'}",
        )
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise HTTPException(415, f"The content encoding {quoted(encoding)} is not supported")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidRequestError(f"The key {quoted(name)} appears twice.", field=name[:64])
        found[name] = value
    return found


def _not_json(constant: str) -> NoReturn:
    raise InvalidRequestError(f"{constant} is not JSON.")
