"""From scores to ids, vectorised over a batch whose rows carry numbers of their own.

Nothing here looks at a value on the device: what differs by request is a tensor, and what
shapes the computation (`SamplingPlan`) is known on the host. A row's result does not
depend on the plan, as long as the plan allows for what the row needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from omni_host.engines.sampling import SamplingPolicy
from omni_host.errors import InvalidRequestError

__all__ = ["CutNumbers", "SamplingPlan", "check_numbers", "choose", "cut", "plan_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutNumbers:
    """The numbers of the cuts, one a row.

    Attributes:
        temperature: float32 [B]; 0 is greedy.
        top_k: int64 [B]; 0 keeps all.
        top_p: float32 [B].
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor

    @classmethod
    def empty(cls, rows: int, device: torch.device | str) -> CutNumbers:
        """Greedy in every row."""
        return cls(
            temperature=torch.zeros(rows, device=device),
            top_k=torch.zeros(rows, dtype=torch.int64, device=device),
            top_p=torch.ones(rows, device=device),
        )

    def put(self, row: int, policy: SamplingPolicy) -> None:
        """Set one row."""
        self.temperature[row] = policy.temperature
        self.top_k[row] = policy.top_k
        self.top_p[row] = policy.top_p

    def take(self, rows: Tensor) -> CutNumbers:
        """The given rows [B], in that order."""
        return CutNumbers(
            temperature=self.temperature[rows], top_k=self.top_k[rows], top_p=self.top_p[rows]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """What a batch needs, known on the host; part of the key of a captured graph.

    Attributes:
        draws: whether any row draws; if not, the argmax is all there is.
        ranked: how many of the best scores have to be ranked for the cuts: 0 for none of
            them, -1 for all.
    """

    draws: bool = False
    ranked: int = 0


def plan_for(policies: Iterable[SamplingPolicy]) -> SamplingPlan:
    """The plan of a batch; `ranked` is rounded up to a power of two to make few of them."""
    drawing = [policy for policy in policies if policy.temperature > 0]
    needs = {_ranked(policy) for policy in drawing}
    if -1 in needs:
        return SamplingPlan(draws=True, ranked=-1)
    most = max(needs, default=0)
    return SamplingPlan(draws=bool(drawing), ranked=1 << (most - 1).bit_length() if most else 0)


def _ranked(policy: SamplingPolicy) -> int:
    nucleus = policy.top_p < 1 or (policy.resample is not None and policy.resample.top_p < 1)
    return policy.top_k or (-1 if nucleus else 0)


def cut(scores: Tensor, numbers: CutNumbers, policy: SamplingPolicy, plan: SamplingPlan) -> Tensor:
    """Temperature, top-k and top-p in the policy's order: float32 [B, V] -> [B, V].

    Barred ids are -inf. Equal scores share one fate: a cut keeps an id if it keeps the
    first of its equals. Rows of temperature 0 come out cut but not tempered.
    """
    ranked = scores.shape[-1] if plan.ranked < 0 else min(plan.ranked, scores.shape[-1])
    best = scores.topk(ranked, dim=-1).values if ranked else None
    for step in policy.order:
        if step == "temperature":
            by = torch.where(numbers.temperature > 0, numbers.temperature, 1.0)[:, None]
            scores = scores / by
            best = None if best is None else best / by
            continue
        if best is None:
            continue
        if step == "top_k":
            least, applies = _kth(best, numbers.top_k)
        else:
            least, applies = _pth(scores, best, numbers.top_p, policy)
        least = torch.where(applies[:, None], least, -torch.inf)
        scores = scores.masked_fill(scores < least, -torch.inf)
        best = best.masked_fill(best < least, -torch.inf)
    return scores


def _kth(best: Tensor, top_k: Tensor) -> tuple[Tensor, Tensor]:
    at = (top_k - 1).clamp(min=0, max=best.shape[-1] - 1)
    return best.gather(-1, at[:, None]), top_k > 0


def _pth(
    scores: Tensor, best: Tensor, top_p: Tensor, policy: SamplingPolicy
) -> tuple[Tensor, Tensor]:
    top = best[:, :1]
    mass = (best - top).exp() / (scores - top).exp().sum(-1, keepdim=True)
    through = mass.cumsum(-1)
    if policy.top_p_rule == "keep_crossing":
        kept = through - mass < top_p[:, None]
    else:
        kept = through <= top_p[:, None]
    count = kept.sum(-1, keepdim=True).clamp(min=1)
    return best.gather(-1, count - 1), top_p < 1


def choose(
    scores: Tensor,
    numbers: CutNumbers,
    policy: SamplingPolicy,
    plan: SamplingPlan,
    noise: Tensor | None,
) -> Tensor:
    """One id a row: scores float32 [B, V] and Gumbel noise [B, V] -> int64 [B].

    `noise` may be None where the plan draws nothing. Rows of temperature 0 take the best.
    """
    greedy = scores.argmax(-1)
    if not plan.draws or noise is None:
        return greedy
    drawn = (cut(scores, numbers, policy, plan) + noise).argmax(-1)
    return torch.where(numbers.temperature > 0, drawn, greedy)


def check_numbers(policy: SamplingPolicy, structure: SamplingPolicy, field: str) -> None:
    """Check a request's policy against the engine's.

    Raises InvalidRequestError, with the field's dotted name, for a number out of range or
    a structure that is not the engine's.
    """
    ranges = {
        "temperature": (policy.temperature >= 0, "must not be negative"),
        "top_k": (policy.top_k >= 0, "must not be negative; 0 keeps all"),
        "top_p": (0 < policy.top_p <= 1, "must be above 0 and at most 1"),
        "repetition_penalty": (policy.repetition_penalty > 0, "must be positive"),
        "repetition_window": (policy.repetition_window >= 0, "must not be negative"),
        "min_tokens": (policy.min_tokens >= 0, "must not be negative"),
    }
    for name, (holds, rule) in ranges.items():
        if not holds:
            value = getattr(policy, name)
            raise InvalidRequestError(f"{name} is {value!r}: it {rule}", field=f"{field}.{name}")
    for name in ("order", "top_p_rule", "allowed", "stop", "resample"):
        if getattr(policy, name) != getattr(structure, name):
            raise InvalidRequestError(
                f"{name} differs from the engine's policy; only numbers may differ by request",
                field=f"{field}.{name}",
            )
