"""Something to wait for, also by a task that is being cancelled."""

from __future__ import annotations

import asyncio

__all__ = ["Latch"]


class Latch:
    """Set once, on the loop; one task waits."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        self._is_set = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        if not self._is_set:
            await self._waiter

    async def wait_through(self) -> None:
        """Wait to the end, however often the task is cancelled meanwhile."""
        while not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                continue
