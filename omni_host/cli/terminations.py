"""SIGTERM and SIGHUP for commands that have something to put away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager

import click

__all__ = ["ends_on_signals"]

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ends_on_signals() -> Generator[None]:
    """Cancel the running task when a signal comes, and exit with 128 + its number.

    Ctrl-C is asyncio's own affair and does the same.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    except asyncio.CancelledError:
        if not received:
            raise
        task.uncancel()
        raise click.exceptions.Exit(128 + received[0]) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
