"""The host's side of every request: admission, opening, results, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any

from omni_host.deployment import Deployment
from omni_host.errors import (
    CancelledError,
    DeadlineError,
    DrainingError,
    InvalidRequestError,
    OmniError,
    StageDiedError,
    error_from_data,
)
from omni_host.runtime import messages as m
from omni_host.runtime.admission import Admission, Limits
from omni_host.runtime.flight import Flight, FlightPlan, FlightPlans
from omni_host.runtime.generation import Generation, Request
from omni_host.runtime.links import CLIENT, host_transport
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.reports import Outcome, RequestReport, RuntimeObserver, StageReport
from omni_host.runtime.wire import PayloadCodec

__all__ = ["Coordinator"]


class Coordinator:
    """A request ends for its client when its outputs have ended or it has failed; its
    place is free again when every stage has let go."""

    def __init__(
        self,
        deployment: Deployment,
        limits: Limits,
        mailbox: Mailbox,
        codec: PayloadCodec,
        observer: RuntimeObserver | None,
    ) -> None:
        self._limits = limits
        self._mailbox = mailbox
        self._codec = codec
        self._observer = observer
        self._transport = host_transport(deployment)
        self._placement = {plan.spec.name: plan.process for plan in deployment.stages}
        self._plans = FlightPlans(deployment.graph, self._placement)
        self._endpoints: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._admission = Admission(limits)
        self._numbers = count(1)
        self._flights: dict[int, Flight] = {}
        self._ids: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.handlers: Mapping[int, Callable[..., None]] = {
            m.RESULT: self._result,
            m.FINISHED: self._finished,
            m.FAILED: self._failed,
            m.DROPPED: self._dropped,
        }

    @property
    def queued(self) -> int:
        return self._admission.queued

    @property
    def running(self) -> int:
        return self._admission.running

    @property
    def draining(self) -> bool:
        return self._admission.draining

    def inside(self) -> Mapping[str, int]:
        """How many requests each stage holds."""
        held = dict.fromkeys(self._placement, 0)
        for flight in self._flights.values():
            for stage in flight.holders:
                held[stage] += 1
        return held

    def submit(self, request: Request) -> Generation:
        """Admit a request, or raise what `Pipeline.submit` raises."""
        plan = self._plans.of(request.task, request.tags())
        self._check(request, plan)
        flight = Flight(request, plan)
        flight.generation = Generation(
            request,
            max(1, self._limits.result_credits // 2),
            lambda stage, read: self._consumed(flight, stage, read),
            lambda: self._cancel(flight),
        )
        self._admission.enter(flight)
        self._ids.add(request.id)
        self._idle.clear()
        deadline = request.deadline_s if request.deadline_s is not None else self._limits.deadline_s
        if deadline is not None:
            loop = asyncio.get_running_loop()
            flight.timer = loop.call_later(deadline, self._expire, flight, deadline)
        self._start_waiting()
        return flight.generation

    # Processes come and go.

    def process_ready(self, process: str, endpoint: str) -> None:
        self._endpoints[process] = endpoint
        self._start_waiting()

    def process_died(self, process: str, reason: str) -> None:
        """Fail the requests inside it; others go on."""
        self._endpoints.pop(process, None)
        for flight in tuple(self._flights.values()):
            inside = {stage for stage in flight.holders if self._placement[stage] == process}
            if inside:
                flight.holders -= inside
                self._end(flight, self._died(sorted(inside)[0], process, reason))
                self._let_go(flight)

    def process_lost(self, process: str, reason: str) -> None:
        """It will not come back: fail what waits for it, refuse what needs it."""
        self._lost[process] = reason
        for flight in self._admission.waiting():
            self._refuse_lost(flight)

    # The end.

    async def drain(self, seconds: float) -> None:
        """Take no new requests, wait for those that are here, then abort the rest."""
        self._admission.draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            self.abort_all()

    def abort_all(self) -> None:
        error = DrainingError("The server stopped before the request was served.")
        for flight in (*self._admission.waiting(), *self._flights.values()):
            self._end(flight, error)

    # Requests.

    def _check(self, request: Request, plan: FlightPlan) -> None:
        if request.id in self._ids:
            raise InvalidRequestError(
                f"A request with the id {request.id!r} is running already.", field="id"
            )
        if request.deadline_s is not None and not request.deadline_s > 0:
            raise InvalidRequestError("A deadline must be positive.", field="deadline_s")
        for stage, process in plan.places.items():
            if process in self._lost:
                raise self._died(stage, process, self._lost[process])

    def _can_start(self, flight: Flight) -> bool:
        return self._endpoints.keys() >= flight.plan.processes.keys()

    def _start_waiting(self) -> None:
        while (flight := self._admission.next(self._can_start)) is not None:
            self._open(flight)

    def _open(self, flight: Flight) -> None:
        flight.number = number = next(self._numbers)
        flight.started = perf_counter()
        self._flights[number] = flight
        try:
            frames = self._encode(flight)
        except OmniError as error:
            self._end(flight, error)
            self._let_go(flight)
            return
        request, plan = flight.request, flight.plan
        flight.holders.update(plan.places)
        for process in plan.processes:
            self._mailbox.post(
                self._endpoints[process],
                (m.OPEN, number, request.id, request.task, plan.tags, frames.get(process)),
            )

    def _encode(self, flight: Flight) -> Mapping[str, Sequence[Any]]:
        frames: dict[str, Sequence[Any]] = {}
        try:
            for process, is_entry in flight.plan.processes.items():
                if is_entry:
                    frames[process] = self._codec.encode(
                        flight.request.payload, self._transport, self._endpoints[process]
                    )
        except OmniError:
            for unsent in frames.values():
                self._codec.discard(unsent, self._mailbox.endpoint)
            raise
        return frames

    def _result(self, sender: str, number: int, stage: str, frames: Sequence[bytes]) -> None:
        flight = self._flights.get(number)
        if flight is None or flight.ended:
            self._codec.discard(frames, sender)
            return
        try:
            data = self._codec.decode(frames, sender)
        except OmniError as error:
            self._end(flight, error)
        else:
            flight.generation.put(flight.plan.outputs[stage], data)

    def _finished(
        self, _sender: str, number: int, stage: str, queue_s: float, busy_s: float, batch: int
    ) -> None:
        if self._observer is not None:
            self._observer.stage_report(
                StageReport(stage=stage, queue_s=queue_s, busy_s=busy_s, batch_size=batch)
            )
        flight = self._flights.get(number)
        if flight is None:
            return
        flight.holders.discard(stage)
        flight.unfinished.discard(stage)
        if not flight.unfinished:
            self._end(flight, None)
        self._let_go(flight)

    def _failed(self, _sender: str, number: int, stage: str, error: dict[str, Any]) -> None:
        flight = self._flights.get(number)
        if flight is not None:
            flight.holders.discard(stage)
            self._end(flight, error_from_data(error))
            self._let_go(flight)

    def _dropped(self, _sender: str, number: int, stage: str) -> None:
        flight = self._flights.get(number)
        if flight is not None:
            flight.holders.discard(stage)
            self._let_go(flight)

    def _consumed(self, flight: Flight, stage: str, read: int) -> None:
        if stage in flight.holders:
            endpoint = self._endpoints[flight.plan.places[stage]]
            self._mailbox.post(endpoint, (m.CREDIT, flight.number, stage, CLIENT, read))

    def _cancel(self, flight: Flight) -> None:
        if not flight.ended:
            self._end(flight, CancelledError("The request was cancelled by its client."))

    def _expire(self, flight: Flight, seconds: float) -> None:
        flight.timer = None
        self._end(flight, DeadlineError(f"The request was not served within {seconds:g} s."))

    def _end(self, flight: Flight, error: OmniError | None) -> None:
        """The client's end; what stages still hold is aborted, once."""
        if flight.ended:
            return
        flight.ended = True
        if flight.timer is not None:
            flight.timer.cancel()
        flight.generation.end(error)
        self._ids.discard(flight.request.id)
        self._report(flight, error)
        if not flight.number:
            self._admission.withdraw(flight)
            self._note_idle()
        elif flight.holders:
            self._abort(flight)

    def _abort(self, flight: Flight) -> None:
        for process in {flight.plan.places[stage] for stage in flight.holders}:
            endpoint = self._endpoints.get(process)
            if endpoint is not None:
                self._mailbox.post(endpoint, (m.ABORT, flight.number))

    def _let_go(self, flight: Flight) -> None:
        if flight.ended and not flight.holders and self._flights.pop(flight.number, None):
            self._admission.leave(perf_counter() - flight.started)
            self._start_waiting()
            self._note_idle()

    def _note_idle(self) -> None:
        if self._admission.idle:
            self._idle.set()

    def _refuse_lost(self, flight: Flight) -> None:
        for stage, process in flight.plan.places.items():
            if process in self._lost:
                self._end(flight, self._died(stage, process, self._lost[process]))
                return

    def _died(self, stage: str, process: str, reason: str) -> StageDiedError:
        return StageDiedError(f"Process {process!r} of stage {stage!r} {reason}.", field=stage)

    def _report(self, flight: Flight, error: OmniError | None) -> None:
        if self._observer is None:
            return
        now = perf_counter()
        outcome: Outcome = "finished" if error is None else "failed"
        if isinstance(error, CancelledError):
            outcome = "cancelled"
        self._observer.request_finished(
            RequestReport(
                id=flight.request.id,
                task=flight.request.task,
                outcome=outcome,
                error=None if error is None else error.code,
                queue_s=(flight.started or now) - flight.submitted,
                total_s=now - flight.submitted,
            )
        )
