"""A deployment that runs: the façade of the runtime."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from omni_host.deployment import Deployment
from omni_host.errors import DrainingError, QueueFullError
from omni_host.plugins import Plugins
from omni_host.runtime import messages as m
from omni_host.runtime.admission import Limits
from omni_host.runtime.boot import Boot
from omni_host.runtime.coordinator import Coordinator
from omni_host.runtime.dotted import make_offered
from omni_host.runtime.generation import Generation, Request
from omni_host.runtime.links import HOST
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.reports import (
    RuntimeObserver,
    Snapshot,
    StageProgress,
    StageSnapshot,
    State,
)
from omni_host.runtime.supervised import Health
from omni_host.runtime.supervisor import Supervisor
from omni_host.runtime.switchboard import Switchboard

__all__ = ["Pipeline"]

_LONGEST_FOLDER = 30
"""The name of a socket's file has to fit into 107 bytes."""


class Pipeline:
    """Starts the processes of a deployment, serves requests and stops them again.

    All methods belong to the event loop on which `start` was called.
    """

    def __init__(
        self,
        deployment: Deployment,
        plugins: Plugins,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        observer: RuntimeObserver | None = None,
        health: Health = Health(),  # noqa: B008 - frozen
    ) -> None:
        self._deployment = deployment
        self._plugins = plugins
        self._limits = limits
        self._observer = observer
        self._health = health
        self._running: _Running | None = None
        self._ready = False
        self._stopped = False
        self._stopping: asyncio.Task[None] | None = None

    async def start(self, progress: Callable[[StageProgress], None] | None = None) -> None:
        """Start every process and wait until every stage is ready.

        Raises StageStartError, or the plugin error by which a worker refused to start;
        nothing is left running then, nor when this is cancelled.
        """
        self._running = _Running(
            self._deployment, self._plugins, self._limits, self._observer, self._health, progress
        )
        try:
            await self._running.supervisor.start()
            self._ready = True
        except BaseException:
            await self.stop(0.0)
            raise

    def submit(self, request: Request) -> Generation:
        """Admit a request; iterate over what it returns.

        Raises at once: InvalidRequestError (unknown task, modality that it does not yield,
        an id that is in use), QueueFullError, DrainingError, StageDiedError if a stage that
        it needs has ended for good.
        """
        if self._stopped:
            raise DrainingError("The server is stopping and takes no new requests.")
        if self._running is None or not self._ready:
            raise QueueFullError("The model is not loaded yet.", retry_after=5)
        return self._running.coordinator.submit(request)

    def snapshot(self) -> Snapshot:
        """How things stand at this moment."""
        if self._running is None:
            state: State = "draining" if self._stopped else "starting"
            return Snapshot(state=state, stages=(), queued=0, running=0)
        return self._running.snapshot()

    async def stop(self, drain_s: float) -> None:
        """Take no new requests, wait up to `drain_s` for those that run, stop everything.

        Afterwards no process, segment or file is left. May be called after a start that
        failed, and again: with `drain_s` 0 it cuts short a drain that is under way.
        """
        self._stopped = True
        if self._running is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._running.stop(drain_s))
        elif drain_s <= 0:
            self._running.coordinator.abort_all()
        await asyncio.shield(self._stopping)
        self._running = None


class _Running:
    """All that exists between start and stop."""

    def __init__(
        self,
        deployment: Deployment,
        plugins: Plugins,
        limits: Limits,
        observer: RuntimeObserver | None,
        health: Health,
        progress: Callable[[StageProgress], None] | None,
    ) -> None:
        with contextlib.ExitStack() as stack:
            self._build(deployment, plugins, limits, observer, health, progress, stack)
            self._resources = stack.pop_all()

    def _build(
        self,
        deployment: Deployment,
        plugins: Plugins,
        limits: Limits,
        observer: RuntimeObserver | None,
        health: Health,
        progress: Callable[[StageProgress], None] | None,
        stack: contextlib.ExitStack,
    ) -> None:
        folder = _private_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self._handlers: dict[int, Callable[..., None]] = {}
        boot = Boot(
            deployment=deployment,
            process="",
            endpoint="",
            address="",
            host=f"ipc://{folder}/{HOST}",
            folder=folder,
            run=secrets.token_hex(4),
            result_credits=limits.result_credits,
            log_level=logging.getLogger().getEffectiveLevel(),
        )
        mailbox = Mailbox(HOST, boot.host, self._receive)
        stack.callback(mailbox.close)
        switchboard = Switchboard(deployment, boot.run, mailbox, torch=False)
        stack.callback(switchboard.close)
        launcher = deployment.launcher
        self.coordinator = Coordinator(deployment, limits, mailbox, switchboard.codec, observer)
        self.supervisor = Supervisor(
            deployment,
            plugins,
            make_offered(f"launcher {launcher.name}", launcher.target),
            mailbox,
            switchboard,
            self.coordinator,
            health,
            boot,
            progress,
        )
        self._handlers.update(self.coordinator.handlers)
        self._handlers.update(self.supervisor.handlers)
        self._handlers[m.RELEASED] = switchboard.released
        mailbox.open()

    def snapshot(self) -> Snapshot:
        inside = self.coordinator.inside()
        state = self.supervisor.state
        return Snapshot(
            state="draining" if self.coordinator.draining else state,
            stages=tuple(
                StageSnapshot(
                    stage=stage.name,
                    process=process.name,
                    pid=None if process.handle is None else process.handle.pid,
                    state=process.state,
                    inside=inside[stage.name],
                    queued=process.queued.get(stage.name, 0),
                )
                for process in self.supervisor.processes
                for stage in process.stages
            ),
            queued=self.coordinator.queued,
            running=self.coordinator.running,
        )

    async def stop(self, drain_s: float) -> None:
        try:
            await self.coordinator.drain(drain_s)
            await self.supervisor.stop()
        finally:
            self._resources.close()

    def _receive(self, sender: str, message: m.Message) -> None:
        handler = self._handlers.get(message[0])
        if handler is not None:
            handler(sender, *message[1:])


def _private_folder() -> str:
    folder = tempfile.gettempdir()
    if len(folder) > _LONGEST_FOLDER and Path("/tmp").is_dir():  # noqa: S108 - made private below
        folder = "/tmp"  # noqa: S108
    return tempfile.mkdtemp(prefix="omni-", dir=folder)
