"""Who takes part in a step, and that everything comes back."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from omni_host.engines import Signal
from omni_host.errors import InvalidRequestError
from tests.engines.toy_decoders import TOYS, ToyProgram, request

TOY = TOYS["dense text"]


def drain(engine) -> dict[str, list[str | None]]:
    """Step to the end: per request, what each of its outputs said about finishing."""
    said: dict[str, list[str | None]] = {}
    for _ in range(10_000):
        if not engine.inside:
            return said
        for output in engine.step():
            said.setdefault(output.id, []).append(output.finished)
    raise AssertionError("the engine goes on for ever")


class Silent(ToyProgram):
    """Has no rows until `speaks`."""

    speaks = False

    def next_row(self, state: object) -> object:
        return super().next_row(state) if self.speaks else Signal.WAIT


def test_a_step_prefills_or_decodes_but_never_both(engine_of) -> None:
    engine = engine_of(TOY)
    engine.submit(request(TOY, "old", frames=20, ignore_stop=True))
    engine.step()
    engine.submit(request(TOY, "new", frames=20, ignore_stop=True))
    steps = [sorted(it.id for it in engine.step()) for _ in range(3)]
    assert steps == [["old"], ["new"], ["new", "old"]]


def test_a_long_prompt_holds_decoding_back_by_one_chunk_at_most(engine_of) -> None:
    engine = engine_of(TOY, chunked_prefill_size=8)
    engine.submit(request(TOY, "stream", rows=8, frames=60, ignore_stop=True))
    engine.step()
    engine.submit(request(TOY, "long", rows=100, frames=2, ignore_stop=True))
    said = [[it.id for it in engine.step()] for _ in range(26)]
    assert all("stream" in now or "stream" in after for now, after in pairwise(said))
    assert ["long"] in said


def test_a_request_that_waits_takes_no_steps_and_keeps_its_rows(engine_of) -> None:
    program = Silent(TOY)
    engine = engine_of(TOY, program, disable_radix_cache=True)
    engine.submit(request(TOY, "waits", rows=20, frames=5, ignore_stop=True))
    assert [it.id for it in engine.step()] == ["waits"]
    assert all(list(engine.step()) == [] for _ in range(5))
    assert engine.inside == 1
    assert engine.cache_use().active == 20
    program.speaks = True
    assert drain(engine)["waits"] == [None, None, None, "length"]
    assert engine.cache_use().active == 0


def test_a_parked_request_gives_its_rows_to_one_that_decodes(engine_of) -> None:
    class OneTalks(Silent):
        def next_row(self, state: object) -> object:
            talks = self.speaks or state.request["name"] == "talks"
            return ToyProgram.next_row(self, state) if talks else Signal.WAIT

    program = OneTalks(TOY)
    engine = engine_of(TOY, program, max_total_tokens=80, disable_radix_cache=True)
    engine.submit(request(TOY, "talks", rows=10, frames=55, ignore_stop=True))
    engine.submit(request(TOY, "parked", rows=20, frames=3, ignore_stop=True))
    most, finished = 0, None
    while finished is None:
        outputs = engine.step()
        most = max(most, engine.cache_use().active)
        finished = next((it.finished for it in outputs if it.id == "talks"), finished)
    assert finished == "length"
    assert most > 60, "the parked one kept its rows as long as it could"
    assert engine.inside == 1
    assert engine.cache_use().active == 0
    program.speaks = True
    assert drain(engine)["parked"] == [None, "length"]


def test_a_program_may_end_a_request(engine_of) -> None:
    engine = engine_of(TOY)
    engine.submit(request(TOY, "one", frames=20, end=3, ignore_stop=True))
    assert drain(engine)["one"] == [None, None, None, "end"]


def test_a_request_can_be_cancelled_wherever_it_is(engine_of) -> None:
    program = Silent(TOY)
    program.speaks = True
    engine = engine_of(
        TOY, program, chunked_prefill_size=8, max_running_requests=2, disable_radix_cache=True
    )
    for name in ("runs", "is read", "is queued"):
        engine.submit(request(TOY, name, rows=20, frames=20, ignore_stop=True))
    while not any(it.id == "runs" for it in engine.step()):
        pass
    engine.step()
    engine.step()
    # A chunk of 8 rows ends the first prompt with 4 and begins the second with 4.
    assert engine.cache_use().active == 20 + 1 + 4 + 8
    assert engine.cancel("is read")
    assert engine.cache_use().active == 21
    assert engine.cancel("is queued")
    program.speaks = False
    engine.step()
    engine.step()
    assert engine.cancel("runs")
    assert not engine.cancel("runs")
    assert engine.inside == 0
    assert engine.cache_use().active == 0


def test_requests_that_can_never_fit_are_refused(engine_of) -> None:
    engine = engine_of(TOY, max_total_tokens=64)
    with pytest.raises(InvalidRequestError, match="64") as refused:
        engine.submit(request(TOY, "large", rows=40, frames=30))
    assert refused.value.field == "max_frames"
    engine.submit(request(TOY, "one", rows=20))
    with pytest.raises(InvalidRequestError, match="inside already"):
        engine.submit(request(TOY, "one"))
    assert engine.inside == 1


def test_the_last_chunk_may_be_all_that_has_room(engine_of) -> None:
    engine = engine_of(TOY, max_total_tokens=72, chunked_prefill_size=64)
    engine.submit(request(TOY, "one", rows=68, frames=2, ignore_stop=True))
    assert drain(engine)["one"] == [None, "length"]


def churn(engine, toy, count: int, seed: int) -> None:
    """Short requests, a third of them cancelled at random steps."""
    rng = random.Random(seed)
    submitted, doomed = 0, []
    while submitted < count or engine.inside:
        while submitted < count and engine.inside < 24:
            name = f"r{submitted}"
            content = f"c{submitted % 7}/{name}"
            rows, frames = rng.randint(3, 20), rng.randint(1, 6)
            engine.submit(request(toy, name, rows=rows, frames=frames, content=content))
            if submitted % 3 == 0:
                doomed.append(name)
            submitted += 1
        for name in [name for name in doomed if rng.random() < 0.3]:
            engine.cancel(name)
            doomed.remove(name)
        engine.step()


def check_nothing_is_held(engine) -> None:
    use = engine.cache_use()
    assert use.active == 0
    assert use.free + use.cached == use.total
    table = engine._worker.requests
    assert sorted(table.free_slots) == list(range(1, table.size + 1))
    assert engine._worker.cache.protected_size() == 0


@pytest.mark.parametrize("starved", [False, True])
@pytest.mark.parametrize("disable_radix_cache", [False, True])
def test_short_requests_leave_nothing_behind(
    engine_of, disable_radix_cache: bool, starved: bool
) -> None:
    toy = TOYS["three positions"]
    engine = engine_of(
        toy,
        ToyProgram(toy, starved=starved),
        max_total_tokens=120,
        chunked_prefill_size=12,
        disable_radix_cache=disable_radix_cache,
    )
    churn(engine, toy, 150, 1)
    check_nothing_is_held(engine)
    assert not disable_radix_cache or engine.cache_use().cached == 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["frames", "experts"])
def test_two_thousand_requests_leave_memory_where_it_was(engine_of, name: str) -> None:
    psutil = pytest.importorskip("psutil")
    toy, process = TOYS[name], psutil.Process()
    engine = engine_of(toy, max_total_tokens=400, max_running_requests=12)
    churn(engine, toy, 200, 0)
    before = process.memory_info().rss
    churn(engine, toy, 2000, 1)
    check_nothing_is_held(engine)
    assert process.memory_info().rss - before < 32 * 2**20


def test_a_policy_may_be_of_any_numbers_but_one_structure(engine_of) -> None:
    engine = engine_of(TOY)
    with pytest.raises(InvalidRequestError) as refused:
        engine.submit(request(TOY, "one", sampling=replace(TOY.sampling, stop=(1,))))
    assert refused.value.field == "sampling.stop"
    assert engine.inside == 0
