"""A stage process: `python -P -m omni_host.runtime.worker`, with a boot on its input.

It loads the locked plugins, builds its stages, says READY and serves until it is told
to stop, or until its input ends because the host is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from omni_host.deployment import StagePlan
from omni_host.errors import OmniError, StageStartError, WireError
from omni_host.plugins import Plugins
from omni_host.runtime import messages as m
from omni_host.runtime.boot import Boot, read_boot
from omni_host.runtime.dotted import resolve
from omni_host.runtime.exchange import Exchange
from omni_host.runtime.links import HOST
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.stage_faults import start_failure
from omni_host.runtime.stage_host import StageHost
from omni_host.runtime.switchboard import Switchboard
from omni_host.stage import StageContext

__all__ = ["main"]

_SWITCH_INTERVAL_S = 0.0005
"""A compute thread in pure Python must not hold up the loop for the usual 5 ms."""

_ORPHAN_GRACE_S = 2.0
_LINGER_S = 1.0

_log = logging.getLogger(__name__)


class Worker:
    """One process' stages, mailbox and codec."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self._deployment = boot.deployment
        self._plans = [plan for plan in boot.deployment.stages if plan.process == boot.process]
        self._stopping = asyncio.Event()
        self._mailbox = Mailbox(boot.endpoint, boot.address, self._receive)
        self._switchboard = Switchboard(boot.deployment, boot.run, self._mailbox)
        self._exchange = Exchange(
            boot.deployment,
            boot.process,
            boot.result_credits,
            self._mailbox,
            self._switchboard.codec,
        )
        self._hosts: list[StageHost] = []
        self._handlers: dict[int, Callable[..., None]] = {
            **self._exchange.handlers,
            m.PEER: self._peer,
            m.FORGET: self._forget,
            m.PING: self._ping,
            m.STOP: self._stop,
            m.RELEASED: self._switchboard.released,
        }

    async def run(self) -> int:
        """Serve until told to stop; the exit status."""
        self._mailbox.open()
        self._mailbox.connect(HOST, self._boot.host)
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        started = starting.done() and starting.result()
        if started:
            await stopping
        starting.cancel()
        stopping.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        await self._close()
        return 0 if started else 1

    def orphaned(self) -> None:
        """The host is gone: leave nothing behind."""
        self._stopping.set()

    async def _start(self) -> bool:
        try:
            await self._build()
        except OmniError as error:
            self._post(m.START_FAILED, error.to_data())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the border to plugins' and stages' code
            _log.info("process %s did not start", self._boot.process, exc_info=error)
            failure = StageStartError(f"{type(error).__name__}: {error}")
            self._post(m.START_FAILED, failure.to_data())
        else:
            # What was loaded stays: the collector need not walk through it again and again.
            gc.collect()
            gc.freeze()
            return True
        return False

    async def _build(self) -> None:
        plugins = Plugins.load_locked(self._deployment.lock)
        contexts = [self._context(plan) for plan in self._plans]
        for plan, context in zip(self._plans, contexts, strict=True):
            plugins.stage_starting(
                plan.spec,
                context,
                owner=self._deployment.owner,
                platform=self._deployment.platform,
            )
        for plan, context in zip(self._plans, contexts, strict=True):
            host = StageHost(plan.spec, self._exchange)
            self._hosts.append(host)
            await self._build_stage(host, plan, context)
            self._exchange.add(host)
            self._post(m.READY, plan.spec.name)

    async def _build_stage(self, host: StageHost, plan: StagePlan, context: StageContext) -> None:
        name = plan.spec.name
        try:
            await host.build(partial(_make, plan.spec.target, context))
        except OmniError:
            raise
        except (Exception, SystemExit) as error:
            _log.info("stage %s did not start", name, exc_info=error)
            raise start_failure(name, error) from error
        edges = self._deployment.graph.edges
        if host.batched and any(e.target == name and e.kind == "stream" for e in edges):
            raise StageStartError(
                f"Stage {name!r} has run_batch, which takes no stream, but a stream edge leads "
                "to it; give it process(job).",
                field=name,
            )

    def _context(self, plan: StagePlan) -> StageContext:
        name = plan.spec.name
        loop = asyncio.get_running_loop()

        def report(what: str, fraction: float | None = None, /) -> None:
            # Stages are built in a thread of their own.
            loop.call_soon_threadsafe(self._post, m.PROGRESS, name, str(what), fraction)

        return StageContext(
            name=name,
            device=plan.device,
            server_args={key: sourced.value for key, sourced in plan.server_args.items()},
            model=self._deployment.model,
            platform=self._deployment.platform,
            engine=plan.engine,
            report=report,
            log=logging.getLogger(f"omni_host.stage.{name}"),
        )

    async def _close(self) -> None:
        for host in self._hosts:
            try:
                await host.close()
            except (Exception, SystemExit):  # noqa: BLE001 - a stage's code; others are to be closed
                _log.exception("stage %s did not close", host.spec.name)
        self._mailbox.close(_LINGER_S)
        self._switchboard.close()

    # Messages.

    def _post(self, kind: int, *rest: Any) -> None:
        self._mailbox.post(HOST, (kind, *rest))

    def _receive(self, sender: str, message: m.Message) -> None:
        handler = self._handlers.get(message[0])
        if handler is None:
            self._exchange.deliver(sender, message)
        else:
            handler(sender, *message[1:])

    def _peer(self, _sender: str, process: str, endpoint: str, address: str) -> None:
        self._mailbox.connect(endpoint, address)
        self._exchange.meet(process, endpoint)

    def _forget(self, _sender: str, process: str, endpoint: str) -> None:
        self._mailbox.forget(endpoint)
        self._switchboard.forget(endpoint)
        self._exchange.part(process, endpoint)

    def _ping(self, _sender: str) -> None:
        load = [(host.spec.name, host.inside, host.queued) for host in self._hosts]
        self._post(m.PONG, load)

    def _stop(self, _sender: str) -> None:
        self._stopping.set()


def _make(target: str, context: StageContext) -> Any:
    return resolve(target)(context)


def _detach_input() -> int:
    """Move standard input to a descriptor of our own, so that no stage reads from it."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return own


def _watch_input(descriptor: int, folder: str, orphaned: Callable[[], None]) -> None:
    """End the process when the host is gone, however it went."""
    with contextlib.suppress(OSError):
        while os.read(descriptor, 1024):
            pass
    orphaned()
    timer = threading.Timer(_ORPHAN_GRACE_S, _leave, (folder,))
    timer.daemon = True
    timer.start()


def _leave(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


async def _run(boot: Boot, descriptor: int) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # A signal to the whole group must not end workers before the host has drained.
        loop.add_signal_handler(number, lambda: None)
    worker = Worker(boot)
    gone = threading.Event()

    def orphaned() -> None:
        gone.set()
        loop.call_soon_threadsafe(worker.orphaned)

    watch = threading.Thread(
        target=_watch_input, args=(descriptor, boot.folder, orphaned), daemon=True
    )
    watch.start()
    status = await worker.run()
    if gone.is_set():
        shutil.rmtree(boot.folder, ignore_errors=True)
    return status


def main() -> int:
    """Run the worker; its exit status."""
    descriptor = _detach_input()
    try:
        boot = read_boot(partial(os.read, descriptor))
    except WireError as error:
        sys.stderr.write(f"{error.message} {error.hint}\n")
        return 1
    logging.basicConfig(
        level=boot.log_level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    return asyncio.run(_run(boot, descriptor))


if __name__ == "__main__":
    # Threads that hang in a stage's code must not hold up the end.
    _status = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(_status)
