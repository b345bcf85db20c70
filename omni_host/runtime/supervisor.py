"""Keeping the workers alive: starting, watching, restarting and stopping them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from omni_host.deployment import Deployment, ProcessPlan
from omni_host.errors import OmniError, StageStartError, error_from_data
from omni_host.plugins import Plugins
from omni_host.runtime import messages as m
from omni_host.runtime.boot import Boot, pack_boot
from omni_host.runtime.launcher import Launcher
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.reports import StageProgress, State
from omni_host.runtime.supervised import Health, SupervisedProcess
from omni_host.runtime.switchboard import Switchboard

__all__ = ["ProcessListener", "Progress", "Supervisor"]

Progress = Callable[[StageProgress], None]

_KILL_S = 5.0

_log = logging.getLogger(__name__)


class ProcessListener(Protocol):
    """Who has to know that processes come and go."""

    def process_ready(self, process: str, endpoint: str) -> None: ...
    def process_died(self, process: str, reason: str) -> None: ...
    def process_lost(self, process: str, reason: str) -> None: ...


class Supervisor:
    """One task for each process follows it through its lives."""

    def __init__(
        self,
        deployment: Deployment,
        plugins: Plugins,
        launcher: Launcher,
        mailbox: Mailbox,
        switchboard: Switchboard,
        listener: ProcessListener,
        health: Health,
        boot: Boot,
        progress: Progress | None,
    ) -> None:
        self._plugins = plugins
        self._launcher = launcher
        self._mailbox = mailbox
        self._switchboard = switchboard
        self._listener = listener
        self._health = health
        self._boot = boot
        self._progress = progress
        specs = {plan.spec.name: plan.spec for plan in deployment.stages}
        self.processes = [
            SupervisedProcess(_with_threads(plan, len(deployment.processes)), stages)
            for plan in deployment.processes
            if (stages := [specs[name] for name in plan.stages])
        ]
        self._by_endpoint: dict[str, SupervisedProcess] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.handlers: Mapping[int, Callable[..., None]] = {
            m.PROGRESS: self._on_progress,
            m.READY: self._ready,
            m.START_FAILED: self._start_failed,
            m.PONG: self._pong,
        }

    @property
    def state(self) -> State:
        states = {process.state for process in self.processes}
        if "failed" in states:
            return "failed"
        return "starting" if "starting" in states else "ready"

    async def start(self) -> None:
        """Start all processes at once and wait for every stage.

        Raises StageStartError, or the plugin error by which a worker refused to start.
        """
        for process in self.processes:
            self._tasks.append(asyncio.create_task(self._keep(process)))
        self._tasks.append(asyncio.create_task(self._beat()))
        firsts = [process.first for process in self.processes]
        done, _ = await asyncio.wait(firsts, return_when=asyncio.FIRST_EXCEPTION)
        for first in done:
            first.result()

    async def stop(self) -> None:
        """Ask every process that serves to stop, wait, kill what is left."""
        self._stopping = True
        keeping = self._tasks[: len(self.processes)]
        for process, task in zip(self.processes, keeping, strict=False):
            self._stop(process, task)
        if keeping:
            await asyncio.wait(keeping, timeout=self._health.stop_s)
            for process in self.processes:
                if process.handle is not None:
                    process.handle.kill()
            await asyncio.wait(keeping, timeout=_KILL_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self.processes:
            if process.first.done():
                process.first.exception()

    def _stop(self, process: SupervisedProcess, task: asyncio.Task[None]) -> None:
        if process.handle is None:  # between two lives
            task.cancel()
        elif process.state == "starting":
            # It serves nobody yet, and while it loads it may not listen for long.
            process.handle.kill()
        else:
            self._post(process, m.STOP)

    # The lives of one process.

    async def _keep(self, process: SupervisedProcess) -> None:
        while True:
            reason = await self._live(process)
            if self._stopping or not process.first.done() or process.first.exception():
                if not process.first.done():
                    process.first.set_exception(reason)
                return
            _log.warning("%s", reason.message)
            pause = process.note_death(self._health)
            if pause is None:
                process.state = "failed"
                self._listener.process_lost(process.name, "has ended too often")
                _log.error("Process %r has ended too often and stays down.", process.name)
                return
            await asyncio.sleep(pause)

    async def _live(self, process: SupervisedProcess) -> OmniError:
        """One life, from launch to burial; why it ended."""
        process.begin(self._boot.folder)
        self._introduce(process)
        try:
            process.handle = await self._launcher.launch(process.plan, self._boot_of(process))
        except Exception as error:  # noqa: BLE001 - a launcher is a plugin's
            self._bury(process, f"could not be started: {error}")
            return StageStartError(
                f"Process {process.name!r} could not be started: {error}.", field=process.name
            )
        exited = asyncio.create_task(process.handle.wait())
        try:
            error = await self._until_ready(process, exited)
            if error is None:
                self._serve(process)
                await exited
                error = StageStartError(f"Process {process.name!r} {_ending(exited)}.")
            return error
        finally:
            process.handle.kill()
            await exited
            self._bury(process, _ending(exited))

    async def _until_ready(
        self, process: SupervisedProcess, exited: asyncio.Task[int]
    ) -> OmniError | None:
        ready = asyncio.create_task(process.ready())
        try:
            await asyncio.wait(
                {ready, exited},
                timeout=self._health.start_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if ready.done():
                error = ready.exception()
                return error if isinstance(error, OmniError) else None
        finally:
            ready.cancel()
        what = (
            _ending(exited) if exited.done() else f"was not ready after {self._health.start_s:g} s"
        )
        assert process.handle is not None
        tail = "\n".join(process.handle.tail)
        return StageStartError(
            f"Process {process.name!r} {what}." + (f" Its last output:\n{tail}" if tail else ""),
            field=process.stages[0].name,
        )

    def _introduce(self, process: SupervisedProcess) -> None:
        """Tell it of its peers and its peers of it; messages wait until it listens."""
        self._by_endpoint[process.endpoint] = process
        self._mailbox.connect(process.endpoint, process.address)
        for peer in self.processes:
            if peer is not process and self._mailbox.connected(peer.endpoint):
                self._post(peer, m.PEER, process.name, process.endpoint, process.address)
                self._post(process, m.PEER, peer.name, peer.endpoint, peer.address)

    def _serve(self, process: SupervisedProcess) -> None:
        process.state = "ready"
        for stage in process.stages:
            self._plugins.stage_ready(stage)
        self._listener.process_ready(process.name, process.endpoint)
        if not process.first.done():
            process.first.set_result(None)

    def _bury(self, process: SupervisedProcess, reason: str) -> None:
        endpoint = process.endpoint
        process.handle = None
        process.state = "starting"
        self._by_endpoint.pop(endpoint, None)
        self._mailbox.forget(endpoint)
        self._switchboard.forget(endpoint)
        self._listener.process_died(process.name, reason)
        for peer in self.processes:
            if peer is not process:
                self._post(peer, m.FORGET, process.name, endpoint)
        for stage in process.stages:
            self._plugins.stage_stopped(stage, reason)

    def _boot_of(self, process: SupervisedProcess) -> bytes:
        return pack_boot(
            dataclasses.replace(
                self._boot,
                process=process.name,
                endpoint=process.endpoint,
                address=process.address,
            )
        )

    # Signs of life.

    async def _beat(self) -> None:
        # Beats are counted, not seconds: a host that was suspended must not blame others.
        most = max(1, round(self._health.limit_s / self._health.ping_s))
        while True:
            await asyncio.sleep(self._health.ping_s)
            for process in self.processes:
                if process.state != "ready" or process.handle is None:
                    continue
                if process.unanswered >= most:
                    _log.warning("Process %r gives no sign of life.", process.name)
                    process.handle.kill()
                process.unanswered += 1
                self._post(process, m.PING)

    def _pong(self, sender: str, load: Sequence[tuple[str, int, int]]) -> None:
        process = self._by_endpoint.get(sender)
        if process is not None:
            process.unanswered = 0
            process.queued = {stage: queued for stage, _, queued in load}

    # Messages of a start.

    def _on_progress(self, _sender: str, stage: str, what: str, fraction: float | None) -> None:
        self._tell(StageProgress(stage=stage, what=what, fraction=fraction, ready=False))

    def _ready(self, sender: str, stage: str) -> None:
        process = self._by_endpoint.get(sender)
        if process is not None:
            self._tell(StageProgress(stage=stage, what="ready", fraction=1.0, ready=True))
            process.stage_ready(stage)

    def _start_failed(self, sender: str, error: dict[str, Any]) -> None:
        process = self._by_endpoint.get(sender)
        if process is not None:
            process.start_failed(error_from_data(error))

    def _tell(self, progress: StageProgress) -> None:
        if self._progress is not None:
            self._progress(progress)

    def _post(self, process: SupervisedProcess, kind: int, *rest: Any) -> None:
        self._mailbox.post(process.endpoint, (kind, *rest))


def _ending(exited: asyncio.Task[int]) -> str:
    if not exited.done():
        return "was stopped"
    status = exited.result()
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _with_threads(plan: ProcessPlan, processes: int) -> ProcessPlan:
    """A fair share of the CPUs for numerical libraries, unless somebody has set it."""
    if "OMP_NUM_THREADS" in os.environ:
        return plan
    threads = max(1, (os.cpu_count() or 1) // processes)
    return dataclasses.replace(plan, env={"OMP_NUM_THREADS": str(threads), **plan.env})
