"""What comes out for a request depends on nothing but the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import DecodeRequest
from omni_host.engines.torch_engine import TorchEngine
from tests.engines.toy_decoders import TOYS, Toy, ToyProgram, build, request

LENGTHS = (20, 3, 33, 17, 48, 1)
ROOMY = {"max_total_rows": 4096, "page_size": 4}


@dataclass(slots=True)
class Outcome:
    codes: list[tuple[int, ...]] = field(default_factory=list)
    finished: str | None = None
    reused: int = 0
    states: Mapping[int, Any] = field(default_factory=dict)
    decode_states: list[Mapping[int, Any]] = field(default_factory=list)


def run(engine: TorchEngine, arrivals: Sequence[tuple[int, DecodeRequest]]) -> dict[str, Outcome]:
    left = sorted(arrivals, key=lambda pair: pair[0])
    outcomes = {it.id: Outcome() for _, it in left}
    step = 0
    while left or engine.inside:
        while left and left[0][0] <= step:
            engine.submit(left.pop(0)[1])
        for output in engine.step():
            outcome = outcomes[output.id]
            assert outcome.finished is None
            if output.codes is not None:
                outcome.codes.append(output.codes)
            outcome.finished = output.finished
            outcome.reused += output.reused_rows or 0
            outcome.states = output.prompt_states or outcome.states
            outcome.decode_states.append(output.decode_state)
        step += 1
        assert step < 5000, "the engine goes on for ever"
    use = engine.cache_use()
    assert use.active == 0
    assert use.free + use.cached == use.total
    return outcomes


def requests(toy: Toy) -> list[DecodeRequest]:
    made = [
        request(toy, f"r{i}", rows=max(rows, 1 + 2 * bool(toy.decoder.capture)), frames=10 + i)
        for i, rows in enumerate(LENGTHS)
    ]
    return [*made, request(toy, "ends", rows=9, frames=30, end=7, ignore_stop=True)]


@cache
def one_by_one(name: str) -> dict[str, Outcome]:
    toy = TOYS[name]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY, prefix_cache=False))
    outcomes: dict[str, Outcome] = {}
    for it in requests(toy):
        outcomes |= run(engine, [(0, it)])
    return outcomes


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "together": {},
    "one after the other": {"apart": 2},
    "in chunks": {"apart": 1, "chunk_rows": 7},
    "in chunks of a row": {"chunk_rows": 1},
    "with another page size": {"page_size": 16},
    "starved": {"starved": True},
    "retracted": {"max_total_rows": 64},
    "retracted and in chunks": {"max_total_rows": 64, "chunk_rows": 5, "apart": 1},
    "in padded batches": {"batch_sizes": (4, 16), "max_running": 16},
    "few at a time": {"max_running": 2},
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_a_request_gives_the_same_alone_and_in_any_company(name: str, setting: str) -> None:
    toy = TOYS[name]
    chosen = dict(SETTINGS[setting])
    apart, starved = chosen.pop("apart", 0), chosen.pop("starved", False)
    engine = TorchEngine(build(toy, ToyProgram(toy, starved=starved), **(ROOMY | chosen)))
    outcomes = run(engine, [(apart * i, it) for i, it in enumerate(requests(toy))])
    for request_id, alone in one_by_one(name).items():
        assert outcomes[request_id].codes == alone.codes, request_id
        assert outcomes[request_id].finished == alone.finished, request_id
        assert outcomes[request_id].states.keys() == alone.states.keys()
        for layer, states in alone.states.items():
            torch.testing.assert_close(outcomes[request_id].states[layer], states)


@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_a_cached_prefix_changes_nothing(name: str) -> None:
    toy = TOYS[name]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    fresh = TorchEngine(build(toy, ToyProgram(toy), **ROOMY, prefix_cache=False))
    for own in ("a", "b", "a"):
        it = request(toy, f"r{own}", rows=40, content=f"shared/{own}")
        cached, alone = run(engine, [(0, it)])[it.id], run(fresh, [(0, it)])[it.id]
        assert cached.codes == alone.codes
        for layer, states in alone.states.items():
            torch.testing.assert_close(cached.states[layer], states)
    assert alone.reused == 0
    assert cached.reused == 36, "all whole pages but the last row's"


def test_rows_whose_states_are_wanted_but_not_cached_are_computed() -> None:
    toy = TOYS["three positions"]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    blind = request(toy, "blind", rows=40, content="same/x")
    unwanted = replace(blind.request["prompt"], wanted=None)
    blind = replace(blind, request={**blind.request, "prompt": unwanted})
    run(engine, [(0, blind)])
    wanting = request(toy, "wanting", rows=40, content="same/x")
    assert run(engine, [(0, wanting)])["wanting"].reused == 0, "row 2 is wanted"
    assert run(engine, [(0, wanting)])["wanting"].reused == 36


def test_a_seed_gives_the_same_draws_among_fifteen_others() -> None:
    toy = TOYS["frames"]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    alone = run(engine, [(0, request(toy, "one", frames=30))])["one"]
    others = [(i % 4, request(toy, f"other {i}", rows=5 + i, frames=40)) for i in range(15)]
    assert run(engine, [*others, (2, request(toy, "one", frames=30))])["one"].codes == alone.codes


def test_other_seeds_give_other_draws() -> None:
    toy = TOYS["frames"]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    seeds = [request(toy, "one", ignore_stop=True, seed=seed) for seed in range(8)]
    assert len({tuple(run(engine, [(0, it)])["one"].codes) for it in seeds}) == len(seeds)


def test_states_of_generated_rows_do_not_depend_on_company() -> None:
    toy = TOYS["three positions"]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    it = request(toy, "one", frames=6, ignore_stop=True, want_decode_states=True)
    outcome = run(engine, [(0, it)])["one"]
    assert outcome.decode_states[0] == {}, "the first frame comes from the prompt"
    assert all(set(states) == {0, 2, -1} for states in outcome.decode_states[1:])
    again = run(engine, [(0, it), *[(0, request(toy, f"o{i}")) for i in range(3)]])["one"]
    for before, after in zip(outcome.decode_states, again.decode_states, strict=True):
        for layer, state in before.items():
            torch.testing.assert_close(after[layer], state)


@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_a_cancelled_neighbour_changes_nothing(name: str) -> None:
    toy = TOYS[name]
    engine = TorchEngine(build(toy, ToyProgram(toy), **ROOMY))
    alone = one_by_one(name)["r0"]
    for at in range(8):
        engine.submit(request(toy, "r0", rows=LENGTHS[0], frames=10))
        engine.submit(request(toy, "neighbour", rows=30, frames=40, ignore_stop=True))
        codes: list[tuple[int, ...]] = []
        step = 0
        while "r0" in engine._scheduler:
            if step == at:
                assert engine.cancel("neighbour")
                assert not engine.cancel("neighbour")
            outputs = engine.step()
            codes += [it.codes for it in outputs if it.id == "r0" and it.codes is not None]
            step += 1
        engine.cancel("neighbour")
        assert codes == alone.codes
        assert engine.cache_use().active == 0
