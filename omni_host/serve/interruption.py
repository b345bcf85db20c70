"""Work that is done only as long as something has not happened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive

__all__ = ["client_left", "run_unless"]


async def run_unless(
    interruption: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, None]
) -> bool:
    """Run `work` to its end, or cancel it as soon as `interruption` has come to its own.

    Returns whether `work` came to its end, and raises what it raised.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(interruption)
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
    if working.cancelled():
        return False
    working.result()
    return True


async def client_left(receive: Receive) -> None:
    """Wait for the client to go away; the request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
