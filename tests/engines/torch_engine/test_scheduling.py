"""Slots, pages, turns: who runs when, and that everything comes back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import Prompt, Runaway, Signal, StepOutput, StepState
from omni_host.engines.torch_engine import TorchEngine
from omni_host.engines.torch_engine.scheduler import Scheduler
from omni_host.errors import InvalidRequestError, StageFailedError
from tests.engines.toy_decoders import TOYS, ToyProgram, build, decoder, request

TOY = TOYS["dense text"]


def engine_of(program: ToyProgram | None = None, **server_args: object) -> TorchEngine:
    arguments = {"max_total_rows": 1024, "page_size": 4, **server_args}
    return TorchEngine(build(TOY, program or ToyProgram(TOY), **arguments))


def drain(engine: TorchEngine) -> dict[str, list[str | None]]:
    """Step to the end: per request, what each of its outputs said about finishing."""
    said: dict[str, list[str | None]] = {}
    for _ in range(10_000):
        if not engine.inside:
            return said
        for output in engine.step():
            said.setdefault(output.id, []).append(output.finished)
    raise AssertionError("the engine goes on for ever")


def test_the_youngest_gives_way_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    retracted: list[str] = []
    retract = Scheduler.retract

    def spy(self: Scheduler, tenant: object) -> None:
        retracted.append(tenant.entry.request.id)
        retract(self, tenant)

    monkeypatch.setattr(Scheduler, "retract", spy)
    engine = engine_of(max_total_rows=64)
    for i in range(4):
        engine.submit(request(TOY, f"r{i}", rows=12, frames=40, ignore_stop=True))
    said = drain(engine)
    assert retracted, "twelve rows fit four times, fifty-one do not"
    assert "r0" not in retracted
    assert all(said[f"r{i}"] == [None] * 39 + ["length"] for i in range(4))


def test_decoding_is_not_starved_by_arriving_prompts() -> None:
    engine = engine_of(prefill_burst=2, chunk_rows=8)
    engine.submit(request(TOY, "stream", rows=8, frames=60, ignore_stop=True))
    engine.step()
    gaps, gap = [], 0
    for step in range(60):
        engine.submit(request(TOY, f"r{step}", rows=16, frames=1))
        outputs = engine.step()
        gap = 0 if any(it.id == "stream" for it in outputs) else gap + 1
        gaps.append(gap)
    assert max(gaps) == 2
    drain(engine)


def test_a_step_prefills_or_decodes_but_never_both() -> None:
    engine = engine_of()
    engine.submit(request(TOY, "old", frames=20, ignore_stop=True))
    engine.step()
    engine.submit(request(TOY, "new", frames=20, ignore_stop=True))
    assert [it.id for it in engine.step()] == ["new"]
    assert sorted(it.id for it in engine.step()) == ["new", "old"]
    drain(engine)


def test_a_request_that_waits_takes_no_steps_and_keeps_its_cache() -> None:
    class Silent(ToyProgram):
        def next_row(self, state: object) -> object:
            return Signal.WAIT

    engine = engine_of(Silent(TOY))
    engine.submit(request(TOY, "waits", rows=20, ignore_stop=True))
    assert [it.id for it in engine.step()] == ["waits"]
    assert all(list(engine.step()) == [] for _ in range(5))
    assert engine.inside == 1
    assert engine.cache_use().active == 20
    assert engine.cancel("waits")
    assert engine.cache_use().active == 0


def test_a_program_may_end_a_request() -> None:
    engine = engine_of()
    engine.submit(request(TOY, "one", frames=20, end=3, ignore_stop=True))
    assert drain(engine)["one"] == [None, None, None, "end"]


def test_stop_ids_end_a_request_unless_ignored() -> None:
    engine = engine_of()
    sampling = replace(TOY.sampling, temperature=3.0, top_k=0, top_p=1.0, min_tokens=0)
    stopped = request(TOY, "one", frames=400, sampling=sampling)
    engine.submit(stopped)
    said = drain(engine)["one"]
    assert said[-1] == "stop"
    engine.submit(replace(stopped, min_frames=len(said) + 5))
    assert len(drain(engine)["one"]) > len(said) + 5
    engine.submit(replace(stopped, ignore_stop=True))
    assert len(drain(engine)["one"]) == 400


def test_a_loop_is_ended_by_the_guard() -> None:
    engine = engine_of()
    only = replace(TOY.sampling, temperature=0.0, repetition_penalty=1e-6)
    guarded = request(TOY, "one", frames=200, sampling=only, ignore_stop=True)
    engine.submit(replace(guarded, runaway=Runaway(max_period=2, repeats=5)))
    said = drain(engine)["one"]
    assert said[-1] == "runaway"
    assert len(said) < 20


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rows": 20, "frames": 1010}, "max_frames"),
        ({"frames": 0}, "max_frames"),
        ({"min_frames": -1}, "min_frames"),
        ({"runaway": Runaway(repeats=1)}, "runaway"),
        ({"residual_sampling": TOY.sampling}, "residual_sampling"),
        ({"sampling": replace(TOY.sampling, top_p=0.0)}, "sampling.top_p"),
        ({"sampling": replace(TOY.sampling, temperature=-1.0)}, "sampling.temperature"),
        ({"sampling": replace(TOY.sampling, stop=(1,))}, "sampling.stop"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(changes: dict, field: str) -> None:
    engine = engine_of()
    with pytest.raises(InvalidRequestError) as refused:
        engine.submit(request(TOY, "one", **changes))
    assert refused.value.field == field
    assert engine.inside == 0


def test_a_request_larger_than_the_cache_is_refused() -> None:
    engine = engine_of(max_total_rows=32)
    engine.submit(request(TOY, "fits", rows=20, frames=13))
    with pytest.raises(InvalidRequestError, match="32 rows of the KV cache"):
        engine.submit(request(TOY, "does not", rows=20, frames=14))
    drain(engine)


def test_an_id_is_inside_once() -> None:
    engine = engine_of()
    engine.submit(request(TOY, "one"))
    with pytest.raises(InvalidRequestError, match="inside already"):
        engine.submit(request(TOY, "one"))


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        (Prompt(rows=torch.zeros(3, 31)), "prompt.rows"),
        (Prompt(rows=torch.zeros(0, 32)), "prompt.rows"),
        (Prompt(rows=torch.zeros(3, 32), keys=[1, 2]), "prompt.keys"),
        (Prompt(rows=torch.zeros(3, 32), positions=torch.zeros(3, 3)), "prompt.positions"),
        (Prompt(rows=torch.zeros(3, 32), wanted=torch.tensor([0])), "prompt.wanted"),
    ],
)
def test_a_prompt_that_does_not_fit_the_decoder_is_refused(prompt: Prompt, field: str) -> None:
    engine = engine_of()
    asked = request(TOY, "one")
    with pytest.raises(InvalidRequestError) as refused:
        engine.submit(replace(asked, request={**asked.request, "prompt": prompt}))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: torch.zeros(33), "a row of shape torch.Size([33])"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: "a row", "a row of shape str"),
    ],
    ids=["wrong width", "raises", "no row"],
)
def test_a_program_that_fails_ends_its_own_request_alone(answer, said) -> None:
    class Failing(ToyProgram):
        def next_row(self, state: StepState) -> object:
            fails = state.request["name"] == "bad" and state.frames == 2
            return answer() if fails else super().next_row(state)

    engine = engine_of(Failing(TOY))
    for name in ("good", "bad"):
        engine.submit(request(TOY, name, frames=6, ignore_stop=True))
    outputs: list[StepOutput] = []
    while engine.inside:
        outputs += engine.step()
    last = {output.id: output for output in outputs if output.finished}
    assert last["good"].finished == "length"
    assert last["bad"].finished == "failed"
    assert isinstance(last["bad"].error, StageFailedError)
    assert "'bad'" in last["bad"].error.message
    assert said in last["bad"].error.message
    check_nothing_is_held(engine)


def churn(count: int, toy_name: str, rng: random.Random, **server_args: object) -> TorchEngine:
    """Short requests, a third of them cancelled at random steps."""
    toy = TOYS[toy_name]
    engine = TorchEngine(build(toy, ToyProgram(toy), page_size=4, **server_args))
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
    return engine


def check_nothing_is_held(engine: TorchEngine) -> None:
    use = engine.cache_use()
    assert use.active == 0
    assert use.free + use.cached == use.total
    scheduler = engine._scheduler
    assert sorted(scheduler._slots) == list(range(engine._arguments.max_running))
    free = scheduler.room.pages._free
    assert len(set(free)) == len(free)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_short_requests_leave_nothing_behind(*, prefix_cache: bool) -> None:
    engine = churn(
        150, "three positions", random.Random(1), max_total_rows=200, prefix_cache=prefix_cache
    )
    check_nothing_is_held(engine)
    assert prefix_cache or engine.cache_use().cached == 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["frames", "experts"])
def test_two_thousand_requests_leave_memory_where_it_was(name: str) -> None:
    psutil = pytest.importorskip("psutil")
    process = psutil.Process()
    churn(200, name, random.Random(0), max_total_rows=400, max_running=12)
    before = process.memory_info().rss
    engine = churn(2000, name, random.Random(1), max_total_rows=400, max_running=12)
    check_nothing_is_held(engine)
    assert process.memory_info().rss - before < 32 * 2**20


def test_positions_beyond_the_decoder_are_refused() -> None:
    toy = replace(TOY, decoder=decoder(vocabulary=40, max_positions=24))
    engine = TorchEngine(build(toy, ToyProgram(toy), max_total_rows=1024))
    with pytest.raises(InvalidRequestError, match="24 rows of the decoder"):
        engine.submit(request(toy, "one", rows=20, frames=6))
