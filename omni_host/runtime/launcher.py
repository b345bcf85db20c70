"""Starting the process of a `ProcessPlan`, here or, by a plugin, elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

from omni_host.deployment import ProcessPlan

__all__ = ["Launcher", "LocalLauncher", "ProcessHandle"]

_TAIL_LINES = 40
_CLOSE_S = 0.5
_LEVELS = {
    name: getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
}


class ProcessHandle(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    @property
    def tail(self) -> Sequence[str]:
        """The last lines it has written."""
        ...

    async def wait(self) -> int:
        """Wait until it has ended and nothing of it is left; its exit status."""
        ...

    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Launcher(Protocol):
    """What `LauncherSpec.target` gives when it is called without arguments."""

    async def launch(self, process: ProcessPlan, boot: bytes) -> ProcessHandle:
        """Start `python -P -m omni_host.runtime.worker` of `process.python`.

        `boot` goes to its standard input, which stays open as long as the host lives: a
        worker ends when its input does. Raises OSError if it cannot be started.
        """
        ...


class LocalLauncher:
    """Starts processes on this machine, each in a session of its own, so that Ctrl-C in a
    terminal reaches the host alone."""

    async def launch(self, process: ProcessPlan, boot: bytes) -> ProcessHandle:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: LocalProcess(process.name),
            process.python,
            "-P",
            "-m",
            "omni_host.runtime.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={"PYTHONUNBUFFERED": "1", **os.environ, **process.env},
        )
        stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        stdin.write(boot)
        return protocol


class LocalProcess(asyncio.SubprocessProtocol):
    """A process on this machine; what it writes goes to the log, line by line."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(f"omni_host.process.{name}")
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = b""
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def tail(self) -> Sequence[str]:
        return tuple(self._tail)

    async def wait(self) -> int:
        await self._exited.wait()
        assert self._transport is not None
        self._signal(signal.SIGKILL)  # what the process itself has started
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), _CLOSE_S)
        self._transport.close()
        return self._transport.get_returncode() or 0

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._pid = self._transport.get_pid() or 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._write(line.decode("utf-8", "replace"))

    def process_exited(self) -> None:
        self._exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._partial:
            self._write(self._partial.decode("utf-8", "replace"))
        self._closed.set()

    def _write(self, line: str) -> None:
        self._tail.append(line)
        self._log.log(_LEVELS.get(line.partition(" ")[0], logging.INFO), "%s", line)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)
