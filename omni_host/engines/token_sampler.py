"""The choice of the outer token: history, penalties, stop ids, resampling.

Holds, for each slot of an engine, a request's numbers and where in its history each id was
last seen, so that penalties over any window are one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omni_host.engines import draws
from omni_host.engines.sampler import CutNumbers, SamplingPlan, choose, cut
from omni_host.engines.sampling import SamplingPolicy

__all__ = ["TokenSampler"]

_FOR_EVER = 2**31 - 1
_NEVER = -1


class TokenSampler:
    """Chooses tokens for requests that live in slots.

    Scores are over `candidates`, the allowed ids in ascending order; an engine may compute
    no others. A row of temperature 0 is never resampled.
    """

    def __init__(
        self, policy: SamplingPolicy, vocabulary: int, slots: int, device: torch.device | str
    ) -> None:
        self.policy = policy
        allowed = [id_ for start, stop in policy.allowed for id_ in range(start, stop)]
        ids = sorted(set(allowed)) if policy.allowed else list(range(vocabulary))
        self.candidates = torch.tensor(ids, dtype=torch.int64, device=device)
        """int64 [C], all ids where the policy allows all."""
        self.restricted = len(ids) < vocabulary
        """Whether some ids are left out."""
        self._column = {id_: column for column, id_ in enumerate(ids)}
        self._spread = draws.spread_ids(self.candidates)
        streams = [0] if policy.resample is None else [0, 1]
        self._streams = torch.tensor(streams, dtype=torch.int64, device=device)
        self._stops = torch.isin(
            self.candidates, torch.tensor(policy.stop, dtype=torch.int64, device=device)
        )
        self.cuts = CutNumbers.empty(slots, device)
        self._roots = torch.zeros(slots, 2, dtype=torch.int64, device=device)
        self._penalty = torch.ones(slots, device=device)
        # int32 [slots]: the window's length, the frames before which stop ids are barred,
        # and the number of tokens that the prompt counts as history.
        self._window = torch.zeros(slots, dtype=torch.int32, device=device)
        self._barred_before = torch.zeros(slots, dtype=torch.int32, device=device)
        self._before = torch.zeros(slots, dtype=torch.int32, device=device)
        self._seen = torch.full((slots, len(ids)), _NEVER, dtype=torch.int32, device=device)

    def admit(
        self,
        slot: int,
        policy: SamplingPolicy,
        *,
        seed: int,
        min_tokens: int,
        ignore_stop: bool,
        history: Sequence[int],
        tokens: Sequence[int] = (),
    ) -> None:
        """Set a slot up; `tokens` are those already produced, for a request that comes back.

        `history` counts for penalties only. `min_tokens` is the request's own bound; the
        larger of it and the policy's holds.
        """
        self.cuts.put(slot, policy)
        self._roots[slot] = self._roots.new_tensor(draws.roots(seed))
        self._penalty[slot] = policy.repetition_penalty
        self._window[slot] = policy.repetition_window or _FOR_EVER
        barred = _FOR_EVER if ignore_stop else max(min_tokens, policy.min_tokens)
        self._barred_before[slot] = barred
        self._before[slot] = len(history)
        self._seen[slot] = _NEVER
        said = enumerate((*history, *tokens))
        last = {self._column[id_]: at for at, id_ in said if id_ in self._column}
        columns = self._seen.new_tensor(list(last), dtype=torch.int64)
        self._seen[slot, columns] = self._seen.new_tensor(list(last.values()))

    def roots(self, slots: Tensor) -> Tensor:
        """The seeds' words int64 [B, 2], for the draws of residual codes."""
        return self._roots[slots]

    def process(self, scores: Tensor, slots: Tensor, frames: Tensor) -> Tensor:
        """Penalties and barred stop ids: float32 [B, C] -> [B, C].

        `frames` int64 [B] counts the frames that each request has produced.
        """
        now = (self._before[slots] + frames)[:, None]
        counted = (self._seen[slots] >= now - self._window[slots][:, None]) & (
            self._seen[slots] != _NEVER
        )
        penalty = self._penalty[slots][:, None]
        penalised = torch.where(scores < 0, scores * penalty, scores / penalty)
        scores = torch.where(counted, penalised, scores)
        barred = self._stops & (frames < self._barred_before[slots])[:, None]
        return scores.masked_fill(barred, -torch.inf)

    def processed(
        self, scores: Tensor, slots: Tensor, frames: Tensor, plan: SamplingPlan
    ) -> Tensor:
        """What is drawn from: `process`, then the cuts."""
        scores = self.process(scores.float(), slots, frames)
        return cut(scores, self.cuts.take(slots), self.policy, plan)

    def choose(self, scores: Tensor, slots: Tensor, frames: Tensor, plan: SamplingPlan) -> Tensor:
        """Scores [B, C] -> token ids int64 [B], which enter the slots' histories."""
        scores = self.process(scores.float(), slots, frames)
        numbers = self.cuts.take(slots)
        noise = None
        if plan.draws:
            noise = draws.gumbel(
                draws.keys(self._roots[slots], frames, self._streams), self._spread
            )
        column = choose(scores, numbers, self.policy, plan, None if noise is None else noise[:, 0])
        if noise is not None and self.policy.resample is not None:
            column = self._resample(column, scores, numbers, slots, frames, plan, noise[:, 1])
        self._seen[slots, column] = (self._before[slots] + frames).to(torch.int32)
        return self.candidates[column]

    def _resample(
        self,
        column: Tensor,
        scores: Tensor,
        numbers: CutNumbers,
        slots: Tensor,
        frames: Tensor,
        plan: SamplingPlan,
        noise: Tensor,
    ) -> Tensor:
        resample = self.policy.resample
        assert resample is not None
        again = CutNumbers(
            temperature=torch.full_like(numbers.temperature, resample.temperature),
            top_k=numbers.top_k,
            top_p=torch.full_like(numbers.top_p, resample.top_p),
        )
        second = choose(scores, again, self.policy, plan, noise)
        # The token of the prefill step, which stands right after the history, never counts.
        first = self._before[slots] + 1
        since = torch.maximum(self._before[slots] + frames - resample.window, first)
        repeated = self._seen[slots, column] >= since
        takes = repeated & ~self._stops[column] & (numbers.temperature > 0)
        return torch.where(takes, second, column)
