"""Checks of what is left when requests are cancelled, processes die and the model stops."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

import pytest

from omni_host.errors import StageDiedError
from omni_host.testing.holdings import (
    Holdings,
    end,
    holdings,
    mapped_shared_memory,
    processes_below,
    shared_memory,
)
from omni_host.testing.model_under_test import ModelUnderTest
from omni_host.testing.served_model import Audio, ServedModel, differing, joined

__all__ = ["ProcessChecks"]

REQUESTS = 24
GROWTH = REQUESTS // 4
"""What may be new after so many requests: pools grow, a leak grows with every request."""
WORKING_S = 0.05
_POLL_S = 0.05


class ProcessChecks:
    """Part of `ModelPluginContract`."""

    @pytest.mark.parametrize("chunks", [0, 1, 3], ids=["before_a_chunk", "after_a_chunk", "midway"])
    def test_a_request_that_is_left_leaves_every_stage(
        self, subject: ModelUnderTest, alone: Sequence[Audio], served: ServedModel, chunks: int
    ) -> None:
        """Cancelled, it is let go everywhere, and the next request is served as ever."""
        with served.stream(**subject.long_request(served)) as stream:
            time.sleep(WORKING_S)
            for read in range(chunks):
                assert next(stream, None) is not None, (
                    f"the long request ended after {read} chunks, before it could be left: "
                    "give the contract a longer `long_text`"
                )
        served.wait_until_idle()
        spoken = served.speak(**subject.request(0, served))
        difference = differing(spoken, alone[0], subject.tolerance)
        assert not difference, f"the next request: {difference}"

    def test_requests_leave_nothing_behind(
        self, subject: ModelUnderTest, served: ServedModel
    ) -> None:
        """Finished or cancelled: no descriptor, thread, child process or shared memory."""
        _serve(subject, served, REQUESTS // 2)
        before = holdings(served.processes())
        _serve(subject, served, REQUESTS)
        new = shared_memory() - before.shared_memory
        grown = _persisting(
            lambda: _growth(before, holdings(served.processes()), new), subject.patience_s
        )
        assert not grown, f"after {REQUESTS} requests, half of them cancelled: {grown}"

    @pytest.mark.usefixtures("alone")
    def test_stopping_leaves_nothing_behind(self, subject: ModelUnderTest) -> None:
        """No process that a stage has started outlives the model, and no shared memory."""
        served = subject.restarted()
        served.speak(**subject.request(0, served))
        processes = processes_below(served.processes())
        segments = mapped_shared_memory(processes)
        subject.stop()
        left = end(processes, subject.patience_s)
        assert not left, f"still running after the model was stopped: {left}"
        lost = _persisting(lambda: sorted(segments & shared_memory()), subject.patience_s)
        assert not lost, f"shared memory that nobody maps any more: {lost}"

    @pytest.mark.parametrize("placement", ["fused", "separate"])
    def test_every_placement_sounds_the_same(
        self, subject: ModelUnderTest, alone: Sequence[Audio], placement: str
    ) -> None:
        """Each stage in a process of its own, and all of them in one."""
        served = subject.served(placement)
        for index, expected in enumerate(alone):
            spoken = served.speak(**subject.request(index, served))
            difference = differing(spoken, expected, subject.tolerance)
            assert not difference, f"request {index} when {placement}: {difference}"

    def test_a_killed_process_comes_back(
        self, subject: ModelUnderTest, alone: Sequence[Audio]
    ) -> None:
        """A request inside fails with StageDiedError; the process starts again and serves."""
        served = subject.served("separate")
        for name, pid in sorted(served.processes().items()):
            _kill(subject, served, pid)
            spoken = served.speak(**subject.request(0, served))
            difference = differing(spoken, alone[0], subject.tolerance)
            assert not difference, f"the request after {name} was killed: {difference}"
            assert served.processes()[name] != pid
            served.wait_until_idle()


def _kill(subject: ModelUnderTest, served: ServedModel, pid: int) -> None:
    """Kill a process in the middle of a request, which fails or had left that process."""
    request = subject.long_request(served)
    with served.stream(**request) as stream:
        chunks = [next(stream)]
        os.kill(pid, signal.SIGKILL)
        try:
            chunks += stream
        except StageDiedError:
            return
    difference = differing(joined(chunks), served.speak(**request), subject.tolerance)
    assert not difference, f"a request that a killed process had left: {difference}"


def _serve(subject: ModelUnderTest, served: ServedModel, count: int) -> None:
    for index in range(count):
        with served.stream(**subject.request(index % len(subject.requests), served)) as stream:
            for _ in stream:
                if index % 2:
                    break
        served.wait_until_idle()


def _persisting(look: Callable[[], list[str]], patience_s: float) -> list[str]:
    """What is still seen after so many seconds; nothing as soon as nothing is seen."""
    end_s = time.monotonic() + patience_s
    while (seen := look()) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
    return seen


def _growth(before: Holdings, after: Holdings, new: frozenset[str]) -> list[str]:
    """What is more than it was; of shared memory `new`, since that of others comes and goes."""
    grown = [
        f"{count - before.counts.get(what, 0)} more {what}"
        for what, count in after.counts.items()
        if count - before.counts.get(what, 0) > GROWTH
    ]
    segments = sorted(after.shared_memory & new)
    if len(segments) > GROWTH:
        grown.append(f"{len(segments)} segments of shared memory, such as {segments[0]}")
    return grown
