"""A stage in its process: how many requests are inside, and who computes."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

from omni_host.errors import OmniError
from omni_host.graph import StageSpec
from omni_host.runtime.batcher import Batcher, Entry
from omni_host.runtime.compute import ComputeThread, Work
from omni_host.runtime.job import StageJob
from omni_host.runtime.latch import Latch
from omni_host.runtime.stage_faults import failure, misuse, results_of
from omni_host.stage import Call

__all__ = ["StageHost", "StageOutcomes"]

_log = logging.getLogger(__name__)

BatchFunction = Callable[[Sequence[Any]], Any]

_EXITS = (SystemExit, KeyboardInterrupt)
"""What asyncio would end the whole process for, were it to leave a task."""


class StageOutcomes(Protocol):
    """Who is told that a job is over: exactly one of these, once a job."""

    def job_finished(self, job: StageJob, busy_s: float) -> None: ...
    def job_failed(self, job: StageJob, error: OmniError) -> None: ...
    def job_dropped(self, job: StageJob) -> None: ...


class StageHost:
    """Runs the jobs of one stage.

    A stage with `run_batch` gets a call once all payloads of a request are here, one
    with `process` a task as soon as the request is opened and there is room.
    """

    def __init__(self, spec: StageSpec, outcomes: StageOutcomes) -> None:
        self.spec = spec
        self._outcomes = outcomes
        self._stage: Any = None
        self._calls: Batcher | None = None
        self._compute = ComputeThread(f"compute-{spec.name}")
        self._inside = 0
        self._waiting: deque[StageJob] = deque()
        self._batchers: dict[BatchFunction, Batcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def inside(self) -> int:
        return self._inside

    @property
    def queued(self) -> int:
        return len(self._waiting)

    async def build(self, make: Callable[[], Any]) -> None:
        """Build the stage in its compute thread, so that the loop goes on meanwhile."""
        work = await self._compute.run(make)
        self._stage = work.result
        if hasattr(self._stage, "run_batch"):
            self._calls = self._batcher(self._stage.run_batch)
        elif not hasattr(self._stage, "process"):
            raise TypeError(
                f"{self.spec.target} gave {type(self._stage).__name__}, "
                "which has neither run_batch nor process"
            )

    @property
    def batched(self) -> bool:
        return self._calls is not None

    async def close(self) -> None:
        """Call the stage's `close()`, after what its compute thread still has to do."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for batcher in self._batchers.values():
            batcher.close()
        close = getattr(self._stage, "close", None)
        if close is not None:
            if inspect.iscoroutinefunction(close):
                await close()
            else:
                await self._compute.run(close)
        self._compute.close()

    # The life of a job.

    def open(self, job: StageJob) -> None:
        if self._calls is None:
            self._admit(job)

    def payload_arrived(self, job: StageJob) -> None:
        if self._calls is not None and job.complete:
            self._admit(job)

    def abort(self, job: StageJob) -> None:
        """Nobody wants its result: let go as soon as possible."""
        job.dropped = True
        self._stop(job)

    def fail(self, job: StageJob, error: OmniError) -> None:
        """It cannot go on, for a reason outside the stage's code."""
        if not job.cancelled:
            job.error = error
            self._stop(job)

    def _stop(self, job: StageJob) -> None:
        if job.task is not None:
            # A task that is cancelled before it begins would end without a word.
            if job.begun:
                job.task.cancel()
        elif job.entry is None:
            if job in self._waiting:
                self._waiting.remove(job)
            self._over(job, 0.0)
        elif self._calls is not None and self._calls.withdraw(job.entry):
            self._leave(job, 0.0)

    def _admit(self, job: StageJob) -> None:
        job.queued = perf_counter()
        if self._inside < self.spec.max_concurrent:
            self._enter(job)
        else:
            self._waiting.append(job)

    def _enter(self, job: StageJob) -> None:
        self._inside += 1
        job.queue_s = perf_counter() - job.queued
        if self._calls is not None:
            call = Call(request=job.request, inputs=job.inputs)
            job.entry = Entry(call, lambda entry: self._settle(job, entry))
            self._calls.add(job.entry)
        else:
            job.task = self._spawn(self._process(job))

    def _leave(self, job: StageJob, busy_s: float) -> None:
        self._inside -= 1
        self._over(job, busy_s)
        while self._waiting and self._inside < self.spec.max_concurrent:
            self._enter(self._waiting.popleft())

    def _over(self, job: StageJob, busy_s: float) -> None:
        job.release()
        if job.dropped:
            self._outcomes.job_dropped(job)
        elif job.error is not None:
            self._outcomes.job_failed(job, self._typed(job.error))
        else:
            self._outcomes.job_finished(job, busy_s)

    def _typed(self, error: BaseException) -> OmniError:
        if not isinstance(error, OmniError):
            _log.info("stage %s failed", self.spec.name, exc_info=error)
        return failure(self.spec.name, error)

    async def _process(self, job: StageJob) -> None:
        started = perf_counter()
        job.begun = True
        try:
            if not job.cancelled:
                returned = await self._stage.process(job)
                if returned is not None and not job.cancelled:
                    raise misuse(
                        self.spec.name,
                        f"process returned {type(returned).__name__}, which goes nowhere; "
                        "await job.emit(...) or job.send(...) instead",
                    )
            if not job.cancelled:
                job.close()
        except asyncio.CancelledError:
            if not job.cancelled:
                job.error = asyncio.CancelledError("the stage cancelled itself")
        except (Exception, *_EXITS) as error:  # noqa: BLE001 - the border to a stage's code
            if not job.cancelled:
                job.error = error
        self._leave(job, max(0.0, perf_counter() - started - job.waited_s))
        self._forget_task()

    def _settle(self, job: StageJob, entry: Entry) -> None:
        job.queue_s += entry.queue_s
        job.batch_size = entry.size
        if not job.cancelled:
            job.error = entry.error
        if not job.cancelled:
            try:
                job.deliver(entry.result)
                job.close()
            except Exception as error:  # noqa: BLE001 - a result may be anything; nobody waits above
                job.error = error
        self._leave(job, entry.busy_s)

    # Where functions run.

    async def compute(self, fn: Callable[[], Any]) -> Work:
        return await self._compute.run(fn)

    async def batch(self, fn: BatchFunction, item: Any) -> Entry:
        """Run `fn` on `item` among others. When cancelled, a batch that runs is let finish."""
        latch = Latch()
        entry = Entry(item, lambda _: latch.set())
        batcher = self._batcher(fn)
        batcher.add(entry)
        try:
            await latch.wait()
        except asyncio.CancelledError:
            if not batcher.withdraw(entry):
                await latch.wait_through()
            raise
        finally:
            if batcher.idle and self._batchers.get(fn) is batcher:
                del self._batchers[fn]
        if entry.error is not None:
            raise entry.error
        return entry

    def _batcher(self, fn: BatchFunction) -> Batcher:
        found = self._batchers.get(fn)
        if found is None:
            run = self._run_async if inspect.iscoroutinefunction(fn) else self._run_compute
            found = self._batchers[fn] = Batcher(
                self.spec.batching, lambda entries: run(fn, entries)
            )
        return found

    def _run_compute(self, fn: BatchFunction, entries: list[Entry]) -> None:
        items = [entry.item for entry in entries]

        def done(work: Work) -> None:
            batcher.finish(entries, work.result, work.error, work.started, work.ended)

        batcher = self._batchers[fn]
        self._compute.submit(lambda: self._results(fn, fn(items), len(items)), done)

    def _run_async(self, fn: BatchFunction, entries: list[Entry]) -> None:
        self._spawn(self._await_batch(fn, entries, self._batchers[fn]))

    async def _await_batch(self, fn: BatchFunction, entries: list[Entry], batcher: Batcher) -> None:
        started = perf_counter()
        results: list[Any] = []
        error: BaseException | None = None
        try:
            returned = await fn([entry.item for entry in entries])
            results = self._results(fn, returned, len(entries))
        except (Exception, asyncio.CancelledError, *_EXITS) as raised:  # noqa: BLE001 - a stage's code
            error = raised
        batcher.finish(entries, results, error, started, perf_counter())
        self._forget_task()

    def _results(self, fn: BatchFunction, returned: Any, count: int) -> list[Any]:
        return results_of(self.spec.name, getattr(fn, "__name__", "the function"), returned, count)

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        return task

    def _forget_task(self) -> None:
        # A callback of the task would cost another turn of the loop.
        task = asyncio.current_task()
        if task is not None:
            self._tasks.discard(task)
