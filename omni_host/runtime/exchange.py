"""The requests inside a worker: opening, delivering, aborting, and telling the host.

Between stages of one process values go by reference; to others they are encoded for
the edge's transport.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omni_host.deployment import Deployment
from omni_host.errors import OmniError, StageDiedError, StageFailedError, WireError
from omni_host.routing import REQUEST
from omni_host.runtime import messages as m
from omni_host.runtime.client_chunks import checked
from omni_host.runtime.job import StageJob
from omni_host.runtime.links import HOST, Link, Links
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.payload_faults import CARRIED
from omni_host.runtime.stage_faults import failure
from omni_host.runtime.stage_host import StageHost
from omni_host.runtime.wire import PayloadCodec
from omni_host.stage import RequestInfo

__all__ = ["Exchange"]

Frames = Sequence[bytes]

_log = logging.getLogger(__name__)


class Exchange:
    """Numbers of requests rise, so what comes for one that is not open is either early
    (its OPEN is still on the way from the host: kept until then) or late (dropped).
    """

    def __init__(
        self,
        deployment: Deployment,
        process: str,
        result_credits: int,
        mailbox: Mailbox,
        codec: PayloadCodec,
    ) -> None:
        self._mailbox = mailbox
        self._codec = codec
        self._links = Links(deployment, process, result_credits)
        self._hosts: dict[str, StageHost] = {}
        self._endpoints = {HOST: HOST}
        self._highest = 0
        self._active: dict[int, dict[str, StageJob]] = {}
        self._early: dict[int, list[tuple[str, m.Message]]] = {}
        self.handlers: Mapping[int, Callable[..., None]] = {
            m.OPEN: self._open,
            m.ABORT: self._abort,
        }
        self._deliveries: Mapping[int, Callable[..., None]] = {
            m.PAYLOAD: self._payload,
            m.CHUNK: self._chunk,
            m.END: self._end,
            m.CREDIT: self._credit,
        }

    def add(self, host: StageHost) -> None:
        self._hosts[host.spec.name] = host

    def meet(self, process: str, endpoint: str) -> None:
        """Messages for `process` go to `endpoint` from now on."""
        self._endpoints[process] = endpoint

    def part(self, process: str, endpoint: str) -> None:
        """`endpoint` has ended: jobs that still wait for something of it cannot go on."""
        if self._endpoints.get(process) == endpoint:
            del self._endpoints[process]
        for jobs in tuple(self._active.values()):
            for job in tuple(jobs.values()):
                if job.awaits(process):
                    error = StageDiedError(
                        f"Process {process!r} ended before it had served stage {job.stage!r}.",
                        field=job.stage,
                    )
                    self._hosts[job.stage].fail(job, error)

    def deliver(self, sender: str, message: m.Message) -> None:
        """Hand a message that concerns one request on, keep it, or drop it."""
        number = message[1]
        if number in self._active:
            try:
                self._deliveries[message[0]](sender, *message[1:])
            except Exception as error:  # noqa: BLE001 - the worker's border: no request may hang on it
                self._fail_all(number, error)
        elif number > self._highest:
            self._early.setdefault(number, []).append((sender, message))
        else:
            self._discard(sender, message)

    # Messages.

    def _open(
        self,
        sender: str,
        number: int,
        name: str,
        task: str,
        tags: tuple[str, ...],
        frames: Frames | None,
    ) -> None:
        self._highest = number
        request = RequestInfo(id=name, task=task, tags=frozenset(tags))
        jobs = self._active[number] = {
            stage: StageJob(number, stage, request, links, self, self._hosts[stage])
            for stage, links in self._links.of(task, tags).items()
        }
        opened = tuple(jobs.values())
        for job in opened:
            self._hosts[job.stage].open(job)
        if frames is not None:
            entries = [job for job in opened if REQUEST in job.links.payloads]
            try:
                self._entry_payload(sender, entries, frames)
            except Exception as error:  # noqa: BLE001 - as in `deliver`
                self._fail_all(number, error)
        for early in sorted(self._early):
            if early > number:
                break
            for kept in self._early.pop(early):
                self.deliver(*kept)

    def _entry_payload(self, sender: str, jobs: Sequence[StageJob], frames: Frames) -> None:
        try:
            value = self._codec.decode(frames, sender)
        except OmniError as error:
            for job in jobs:
                self._hosts[job.stage].fail(job, error)
            return
        for job in jobs:
            self._put_payload(job, REQUEST, value)

    def _abort(self, _sender: str, number: int) -> None:
        for job in tuple(self._active.get(number, {}).values()):
            self._hosts[job.stage].abort(job)

    def _payload(self, sender: str, number: int, target: str, source: str, frames: Frames) -> None:
        job = self._active[number].get(target)
        if job is None:
            self._codec.discard(frames, sender)
            return
        try:
            value = self._codec.decode(frames, sender)
        except OmniError as error:
            self._hosts[target].fail(job, error)
        else:
            self._put_payload(job, source, value)

    def _chunk(self, sender: str, number: int, target: str, source: str, frames: Frames) -> None:
        job = self._active[number].get(target)
        if job is None:
            self._codec.discard(frames, sender)
            return
        try:
            job.put_chunk(source, self._codec.decode(frames, sender))
        except OmniError as error:
            self._hosts[target].fail(job, error)

    def _end(self, _sender: str, number: int, target: str, source: str) -> None:
        job = self._active[number].get(target)
        if job is not None:
            job.end_stream(source)

    def _credit(self, _sender: str, number: int, source: str, target: str, count: int) -> None:
        job = self._active[number].get(source)
        if job is not None:
            job.give_credit(target, count)

    def _discard(self, sender: str, message: m.Message) -> None:
        if message[0] in (m.PAYLOAD, m.CHUNK):
            self._codec.discard(message[4], sender)

    def _put_payload(self, job: StageJob, source: str, value: Any) -> None:
        job.put_payload(source, value)
        self._hosts[job.stage].payload_arrived(job)

    # What jobs send.

    def carry_payload(self, job: StageJob, link: Link, value: Any) -> None:
        if link.process is None:
            target = self._local(job, link.target)
            if target is not None:
                self._put_payload(target, job.stage, value)
            return
        self._carry(m.PAYLOAD, job, link, value)

    def carry_chunk(self, job: StageJob, link: Link, chunk: Any) -> None:
        if link.process is None:
            target = self._local(job, link.target)
            if target is not None:
                target.put_chunk(job.stage, chunk)
        elif link.process == HOST:
            output = job.links.output
            assert output is not None
            chunk = checked(job.stage, output.modality, chunk)
            frames = self._encode(job, link, chunk, HOST)
            self._mailbox.post(HOST, (m.RESULT, job.number, job.stage, frames))
        else:
            self._carry(m.CHUNK, job, link, chunk)

    def carry_end(self, job: StageJob, link: Link) -> None:
        if link.process is None:
            target = self._local(job, link.target)
            if target is not None:
                target.end_stream(job.stage)
        elif link.process in self._endpoints:
            endpoint = self._endpoints[link.process]
            self._mailbox.post(endpoint, (m.END, job.number, link.target, job.stage))

    def carry_credit(self, job: StageJob, source: str, count: int) -> None:
        process = job.links.sources[source]
        if process is None:
            maker = self._local(job, source)
            if maker is not None:
                maker.give_credit(job.stage, count)
        elif process in self._endpoints:
            endpoint = self._endpoints[process]
            self._mailbox.post(endpoint, (m.CREDIT, job.number, source, job.stage, count))

    def _carry(self, kind: int, job: StageJob, link: Link, value: Any) -> None:
        endpoint = self._endpoints.get(link.process or "")
        if endpoint is not None:  # else its process has ended, and the request with it
            frames = self._encode(job, link, value, endpoint)
            self._mailbox.post(endpoint, (kind, job.number, link.target, job.stage, frames))

    def _encode(self, job: StageJob, link: Link, value: Any, peer: str) -> Sequence[Any]:
        try:
            return self._codec.encode(value, link.transport, peer)
        except WireError as error:
            raise WireError(
                f"Stage {job.stage!r} cannot send this to {link.target!r}: {error.message}",
                hint=f"{error.hint} Carried are {CARRIED}.".strip(),
                field=job.stage,
            ) from error

    def _local(self, job: StageJob, stage: str) -> StageJob | None:
        return self._active.get(job.number, {}).get(stage)

    # How jobs end.

    def job_finished(self, job: StageJob, busy_s: float) -> None:
        self._close(job)
        self._mailbox.post(
            HOST, (m.FINISHED, job.number, job.stage, job.queue_s, busy_s, job.batch_size)
        )

    def job_failed(self, job: StageJob, error: OmniError) -> None:
        self._close(job)
        try:
            self._mailbox.post(HOST, (m.FAILED, job.number, job.stage, error.to_data()))
        except Exception as fault:  # noqa: BLE001 - an error of a plugin's own may hold anything
            told = StageFailedError(
                f"Stage {job.stage!r} failed, and its {type(error).__name__} cannot be "
                f"carried: {type(fault).__name__}.",
                field=job.stage,
            )
            self._mailbox.post(HOST, (m.FAILED, job.number, job.stage, told.to_data()))

    def _fail_all(self, number: int, error: Exception) -> None:
        """A message of this request could not be handed on: no stage here can rely on the rest."""
        _log.info("request %d: a message was not handed on", number, exc_info=error)
        for job in tuple(self._active.get(number, {}).values()):
            self._hosts[job.stage].fail(job, failure(job.stage, error))

    def job_dropped(self, job: StageJob) -> None:
        self._close(job)
        self._mailbox.post(HOST, (m.DROPPED, job.number, job.stage))

    def _close(self, job: StageJob) -> None:
        jobs = self._active.get(job.number)
        if jobs is not None:
            jobs.pop(job.stage, None)
            if not jobs:
                del self._active[job.number]
