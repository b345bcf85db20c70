"""Cuts and choices, against transformers, against plain numpy, and by counting draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import Resample, SamplingPolicy, draws
from omni_host.engines.sampler import CutNumbers, SamplingPlan, cut, plan_for
from omni_host.engines.token_sampler import TokenSampler

FISH = SamplingPolicy(
    temperature=0.7,
    top_k=30,
    top_p=0.9,
    top_p_rule="bar_crossing",
    order=("top_p", "top_k", "temperature"),
)
DRAWS, SLOTS = 50_000, 1000


def numbers(policy: SamplingPolicy, rows: int) -> CutNumbers:
    made = CutNumbers.empty(rows, "cpu")
    for row in range(rows):
        made.put(row, policy)
    return made


def scores(rows: int, vocabulary: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("top_k", [0, 1, 8, 50, 400])
@pytest.mark.parametrize("top_p", [1.0, 0.99, 0.8, 0.1, 1e-4])
@pytest.mark.parametrize("temperature", [0.3, 0.9, 1.7])
def test_the_cuts_are_those_of_transformers(top_k: int, top_p: float, temperature: float) -> None:
    logits = pytest.importorskip("transformers.generation.logits_process")
    policy = SamplingPolicy(temperature=temperature, top_k=top_k, top_p=top_p)
    given = scores(6, 300)
    expected = logits.TemperatureLogitsWarper(temperature)(None, given)
    if top_k:
        expected = logits.TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = logits.TopPLogitsWarper(top_p)(None, expected)
    torch.testing.assert_close(cut(given, numbers(policy, 6), policy, plan_for([policy])), expected)


@pytest.mark.parametrize("penalty", [1.05, 1.5, 0.8])
@pytest.mark.parametrize("window", [0, 3])
def test_the_penalty_is_that_of_transformers(penalty: float, window: int) -> None:
    logits = pytest.importorskip("transformers.generation.logits_process")
    policy = SamplingPolicy(temperature=0.0, repetition_penalty=penalty, repetition_window=window)
    sampler = TokenSampler(policy, 50, 2, "cpu")
    histories = [(3, 7, 3, 11, 20), (49, 0, 1, 2, 2)]
    for slot, history in enumerate(histories):
        sampler.admit(
            slot,
            policy,
            seed=0,
            min_tokens=0,
            ignore_stop=False,
            history=history[:2],
            tokens=history[2:],
        )
    given = scores(2, 50)
    counted = torch.tensor([history[-window:] if window else history for history in histories])
    expected = logits.RepetitionPenaltyLogitsProcessor(penalty)(counted, given)
    found = sampler.process(given, torch.tensor([0, 1]), torch.tensor([3, 3]))
    torch.testing.assert_close(found, expected)


def fish_in_numpy(given: np.ndarray, policy: SamplingPolicy) -> np.ndarray:
    """Sort, bar by rank and by cumulative probability, then temper: for one row."""
    order = np.argsort(-given, kind="stable")
    ranked = given[order].astype(np.float64)
    shares = np.exp(ranked - ranked[0])
    cumulative = np.cumsum(shares / shares.sum())
    barred = (np.arange(len(given)) >= policy.top_k) | (cumulative > policy.top_p)
    barred[0] = False
    result = given / np.float32(policy.temperature)
    result[order[barred]] = -np.inf
    return result


@pytest.mark.parametrize("top_p", [0.7, 0.9, 0.999, 1e-3])
@pytest.mark.parametrize("top_k", [1, 3, 30])
def test_fish_cuts_untempered_scores_and_bars_the_one_that_crosses(
    top_k: int, top_p: float
) -> None:
    policy = replace(FISH, top_k=top_k, top_p=top_p)
    given = scores(8, 200)
    expected = np.stack([fish_in_numpy(row, policy) for row in given.numpy()])
    found = cut(given, numbers(policy, 8), policy, plan_for([policy]))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_row_is_cut_alike_whatever_the_plan_allows_for() -> None:
    given = scores(4, 300)
    for policy in (SamplingPolicy(top_k=5, top_p=0.8), replace(FISH, top_k=5)):
        narrow = cut(given, numbers(policy, 4), policy, SamplingPlan(draws=True, ranked=8))
        wide = cut(given, numbers(policy, 4), policy, SamplingPlan(draws=True, ranked=-1))
        assert torch.equal(narrow, wide)


def test_scores_equal_to_the_kth_best_are_kept() -> None:
    policy = SamplingPolicy(top_k=2)
    found = cut(
        torch.tensor([[1.0, 3.0, 1.0, 2.0, 2.0, 2.0]]),
        numbers(policy, 1),
        policy,
        plan_for([policy]),
    )
    assert found.isfinite().tolist() == [[False, True, False, True, True, True]]


def test_every_row_has_numbers_of_its_own() -> None:
    policies = [
        SamplingPolicy(temperature=0.5, top_k=3),
        SamplingPolicy(temperature=2.0, top_p=0.5),
        SamplingPolicy(temperature=0.0),
        SamplingPolicy(top_k=7, top_p=0.9),
    ]
    mixed = CutNumbers.empty(4, "cpu")
    given = scores(4, 100)
    for row, policy in enumerate(policies):
        mixed.put(row, policy)
    together = cut(given, mixed, policies[0], plan_for(policies))
    for row in (0, 1, 3):
        policy = policies[row]
        alone = cut(given[row : row + 1], numbers(policy, 1), policy, plan_for([policy]))
        assert torch.equal(together[row], alone[0])


POLICIES = {
    "plain": SamplingPolicy(),
    "tempered": SamplingPolicy(temperature=0.6),
    "hot": SamplingPolicy(temperature=1.8),
    "best eight": SamplingPolicy(temperature=0.9, top_k=8),
    "nucleus": SamplingPolicy(top_p=0.8),
    "both": SamplingPolicy(temperature=0.9, top_k=12, top_p=0.9),
    "fish": replace(FISH, top_p=0.97),
    "restricted": SamplingPolicy(allowed=((3, 9), (20, 26)), stop=(25,), min_tokens=4),
    "penalised": SamplingPolicy(repetition_penalty=1.3),
}


def chi_square_tail(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """The probability of counts at least as uneven; rare ids are taken together."""
    expected = probabilities.double() * counts.sum()
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum()[None])).double()
    expected = torch.cat((expected[~rare], expected[rare].sum()[None]))
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return torch.special.gammaincc(freedom, statistic / 2).item()


@pytest.mark.parametrize("name", POLICIES)
def test_fifty_thousand_draws_follow_the_processed_scores(name: str) -> None:
    policy = POLICIES[name]
    sampler = TokenSampler(policy, 40, SLOTS, "cpu")
    for slot in range(SLOTS):
        sampler.admit(slot, policy, seed=0, min_tokens=0, ignore_stop=False, history=(4, 7))
    seen = sampler._seen.clone()
    given = scores(1, len(sampler.candidates), spread=1.5)
    counts = torch.zeros(40, dtype=torch.int64)
    slots = torch.arange(SLOTS)
    for first in range(0, DRAWS, SLOTS):
        seeds = range(first, first + SLOTS)
        sampler._roots.copy_(torch.tensor([draws.roots(seed) for seed in seeds]))
        sampler._seen.copy_(seen)
        chosen = sampler.choose(given.expand(SLOTS, -1), slots, slots * 0, plan_for([policy]))
        counts += chosen.bincount(minlength=40)
    sampler.admit(0, policy, seed=0, min_tokens=0, ignore_stop=False, history=(4, 7))
    first = torch.tensor([0])
    processed = sampler.processed(given, first, first * 0, plan_for([policy]))[0]
    probabilities = torch.zeros(40).index_copy(0, sampler.candidates, processed.softmax(-1))
    assert counts[probabilities == 0].sum() == 0, "a barred id was drawn"
    assert chi_square_tail(counts, probabilities) > 1e-3


def test_consecutive_frames_of_one_seed_draw_independently() -> None:
    policy = SamplingPolicy()
    sampler = TokenSampler(policy, 6, 1, "cpu")
    sampler.admit(0, policy, seed=9, min_tokens=0, ignore_stop=False, history=())
    slot = torch.tensor([0])
    drawn = [
        sampler.choose(torch.zeros(1, 6), slot, torch.tensor([frame]), plan_for([policy])).item()
        for frame in range(3000)
    ]
    pairs = torch.tensor(drawn[:-1]) * 6 + torch.tensor(drawn[1:])
    assert chi_square_tail(pairs.bincount(minlength=36), torch.full((36,), 1 / 36)) > 1e-3


def resampling(window: int = 3) -> SamplingPolicy:
    return replace(FISH, stop=(0,), resample=Resample(window=window, temperature=1.0, top_p=1.0))


def chosen(policy: SamplingPolicy, tokens: tuple[int, ...], seed: int, given: torch.Tensor) -> int:
    sampler = TokenSampler(policy, given.shape[1], 1, "cpu")
    sampler.admit(0, policy, seed=seed, min_tokens=0, ignore_stop=False, history=(), tokens=tokens)
    frames = torch.tensor([len(tokens)])
    return sampler.choose(given, torch.tensor([0]), frames, plan_for([policy])).item()


@pytest.mark.parametrize(
    ("tokens", "repeated"),
    [
        ((9, 9, 4), True),
        ((9, 4, 9, 9), True),
        ((9, 4, 9, 9, 9), False),  # outside the window of three
        ((4, 9, 9), False),  # the token of the prefill step never counts
        ((4,), False),
        ((), False),
    ],
)
def test_a_repeated_token_is_drawn_again(tokens: tuple[int, ...], repeated: bool) -> None:
    policy = resampling()
    given = torch.full((1, 12), -4.0)
    given[0, 4] = 2.0
    firsts = [chosen(replace(policy, resample=None), tokens, seed, given) for seed in range(200)]
    finals = [chosen(policy, tokens, seed, given) for seed in range(200)]
    assert 4 in firsts
    differing = [first for first, final in zip(firsts, finals, strict=True) if first != final]
    assert bool(differing) is repeated
    assert set(differing) <= {4}


def test_stop_ids_and_greedy_rows_are_never_drawn_again() -> None:
    given = torch.full((1, 12), -4.0)
    given[0, 0] = 2.0
    policy = resampling()
    once = replace(policy, resample=None)
    stopping = [seed for seed in range(50) if chosen(once, (9, 0, 0), seed, given) == 0]
    assert stopping
    assert all(chosen(policy, (9, 0, 0), seed, given) == 0 for seed in stopping)
    given[0, 4] = 9.0
    greedy = replace(policy, temperature=0.0)
    sampler = TokenSampler(policy, 12, 2, "cpu")
    for slot, used in enumerate((greedy, policy)):
        sampler.admit(
            slot, used, seed=slot, min_tokens=0, ignore_stop=False, history=(), tokens=(9, 4, 4)
        )
    frames = torch.tensor([3, 3])
    tokens = sampler.choose(given.expand(2, -1), torch.tensor([0, 1]), frames, plan_for([policy]))
    assert tokens[0].item() == 4


def test_stop_ids_are_barred_until_they_may_come() -> None:
    policy = SamplingPolicy(temperature=0.0, stop=(2,), min_tokens=2)
    sampler = TokenSampler(policy, 4, 3, "cpu")
    given = torch.tensor([[0.0, 1.0, 5.0, 2.0]]).expand(3, -1)
    wishes = [{"min_tokens": 0}, {"min_tokens": 4}, {"min_tokens": 0, "ignore_stop": True}]
    for slot, wish in enumerate(wishes):
        sampler.admit(slot, policy, **({"seed": 0, "history": (), "ignore_stop": False} | wish))
    slots = torch.arange(3)
    found = [
        sampler.choose(given, slots, slots * 0 + frame, plan_for([policy])).tolist()
        for frame in (0, 1, 2, 3, 4, 1000)
    ]
    assert found == [[3, 3, 3]] * 2 + [[2, 3, 3]] * 2 + [[2, 2, 3]] * 2


def test_scores_are_only_needed_for_allowed_ids() -> None:
    policy = SamplingPolicy(temperature=0.0, allowed=((10, 12), (20, 21)), stop=(20,))
    sampler = TokenSampler(policy, 30, 1, "cpu")
    assert sampler.restricted
    assert sampler.candidates.tolist() == [10, 11, 20]
    sampler.admit(0, policy, seed=0, min_tokens=0, ignore_stop=False, history=(5,))
    slot = torch.tensor([0])
    token = sampler.choose(torch.tensor([[0.0, 1.0, 2.0]]), slot, slot, plan_for([policy]))
    assert token.tolist() == [20]
