"""What comes out is what the torch engine gives, alone and in any company."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from omni_host.engines.torch_engine import TorchEngine
from tests.engines.torch_engine.test_invariances import ROOMY, one_by_one, requests, run
from tests.engines.toy_decoders import TOYS, ToyProgram, build, request

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "together": {},
    "one after the other": {"apart": 2},
    "in chunks": {"apart": 1, "chunked_prefill_size": 7},
    "in chunks of a row": {"chunked_prefill_size": 1},
    "starved": {"starved": True},
    "without prefixes": {"disable_radix_cache": True, "chunked_prefill_size": 9},
    "retracted": {"max_total_tokens": 72},
    "retracted and in chunks": {"max_total_tokens": 72, "chunked_prefill_size": 5, "apart": 1},
    "retracted and starved": {"max_total_tokens": 72, "starved": True},
    "few at a time": {"max_running_requests": 2},
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_a_request_gives_what_it_gives_alone_on_the_torch_engine(
    engine_of, name: str, setting: str
) -> None:
    toy = TOYS[name]
    chosen = dict(SETTINGS[setting])
    apart, starved = chosen.pop("apart", 0), chosen.pop("starved", False)
    engine = engine_of(toy, ToyProgram(toy, starved=starved), **chosen)
    outcomes = run(engine, [(apart * i, it) for i, it in enumerate(requests(toy))])
    for request_id, alone in one_by_one(name).items():
        assert outcomes[request_id].codes == alone.codes, request_id
        assert outcomes[request_id].finished == alone.finished, request_id
        assert outcomes[request_id].states.keys() == alone.states.keys()
        for layer, states in alone.states.items():
            torch.testing.assert_close(
                outcomes[request_id].states[layer], states, rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_greedy_codes_are_the_torch_engines(engine_of, name: str) -> None:
    toy = TOYS[name]
    greedy = replace(toy.sampling, temperature=0.0)
    changes: dict[str, Any] = {"sampling": greedy, "ignore_stop": True}
    if toy.frame:
        changes["residual_sampling"] = replace(toy.frame.sampling, temperature=0.0)
    asked = [request(toy, f"r{i}", rows=5 + 9 * i, frames=25, **changes) for i in range(4)]
    mine = run(engine_of(toy), [(i, it) for i, it in enumerate(asked)])
    torchs = run(TorchEngine(build(toy, ToyProgram(toy), **ROOMY)), [(0, it) for it in asked])
    assert {k: v.codes for k, v in mine.items()} == {k: v.codes for k, v in torchs.items()}


@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_a_cached_prefix_changes_nothing(engine_of, name: str) -> None:
    toy = TOYS[name]
    asked = [request(toy, f"r{own}", rows=40, content=f"shared/{own}") for own in ("a", "b", "a")]
    fresh = engine_of(toy, disable_radix_cache=True)
    alone = [run(fresh, [(0, it)])[it.id] for it in asked]
    engine = engine_of(toy)
    cached = [run(engine, [(0, it)])[it.id] for it in asked]
    assert [outcome.reused for outcome in alone] == [0, 0, 0]
    assert [outcome.reused for outcome in cached] == [0, 20, 39], "all rows but the last"
    for with_cache, without in zip(cached, alone, strict=True):
        assert with_cache.codes == without.codes
        for layer, states in without.states.items():
            torch.testing.assert_close(with_cache.states[layer], states)


def test_rows_whose_states_are_wanted_but_not_kept_are_computed(engine_of) -> None:
    toy = TOYS["three positions"]
    engine = engine_of(toy)
    blind = request(toy, "blind", rows=40, content="same/x")
    unwanted = replace(blind.request["prompt"], wanted=None)
    blind = replace(blind, request={**blind.request, "prompt": unwanted})
    run(engine, [(0, blind)])
    wanting = request(toy, "wanting", rows=40, content="same/x")
    assert run(engine, [(0, wanting)])["wanting"].reused == 2, "row 2 is the first one wanted"
    assert run(engine, [(0, wanting)])["wanting"].reused == 39


def test_prompts_that_differ_in_positions_alone_share_nothing(engine_of) -> None:
    toy = TOYS["dense text"]
    engine = engine_of(toy)
    first = request(toy, "first", rows=30, content="same/x")
    run(engine, [(0, first)])
    moved = replace(first.request["prompt"], positions=torch.arange(30) + 1)
    second = replace(first, id="second", request={**first.request, "prompt": moved})
    assert run(engine, [(0, second)])["second"].reused == 0


def test_prompts_without_keys_share_nothing(engine_of) -> None:
    toy = TOYS["dense text"]
    engine = engine_of(toy)
    it = request(toy, "one", rows=30)
    plain = replace(it.request["prompt"], keys=None)
    it = replace(it, request={**it.request, "prompt": plain})
    assert [run(engine, [(0, it)])["one"].reused for _ in range(2)] == [0, 0]
    assert engine.cache_use().cached == 0


def test_a_seed_gives_the_same_draws_among_fifteen_others(engine_of) -> None:
    toy = TOYS["frames"]
    engine = engine_of(toy)
    alone = run(engine, [(0, request(toy, "one", frames=30))])["one"]
    others = [(i % 4, request(toy, f"other {i}", rows=5 + i, frames=40)) for i in range(15)]
    assert run(engine, [*others, (2, request(toy, "one", frames=30))])["one"].codes == alone.codes


def test_states_of_generated_rows_do_not_depend_on_company(engine_of) -> None:
    toy = TOYS["three positions"]
    engine = engine_of(toy)
    it = request(toy, "one", frames=6, ignore_stop=True, want_decode_states=True)
    outcome = run(engine, [(0, it)])["one"]
    assert outcome.decode_states[0] == {}, "the first frame comes from the prompt"
    assert all(set(states) == {0, 2, -1} for states in outcome.decode_states[1:])
    again = run(engine, [(0, it), *[(0, request(toy, f"o{i}")) for i in range(3)]])["one"]
    for before, after in zip(outcome.decode_states, again.decode_states, strict=True):
        for layer, state in before.items():
            torch.testing.assert_close(after[layer], state, rtol=1e-4, atol=1e-4)
