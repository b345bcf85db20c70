"""Sampling as data, and the random numbers behind it.

The processing of scores, in this order:

1. ids outside `allowed` are barred (-inf), if any ranges are given;
2. repetition penalty on every distinct id of the history inside `repetition_window`
   (CTRL, arXiv 1909.05858: positive scores divided, negative ones multiplied);
3. `stop` ids are barred while fewer than `min_tokens` tokens exist, or for ever when the
   request ignores them;
4. temperature, top-k and top-p in the order of `order`.

Step 2 comes before step 1 in some references; the order has no effect on the result,
since a barred score stays barred under both.

Drawing is by the Gumbel-max trick: argmax over ids of score - log(-log(u(id))), where u
is a counter-based hash of (seed, frame, codebook, draw, id), defined in
`omni_host.engines.draws`. There is no generator state,
so a request's draws depend on nothing but its seed: not on the batch, not on the engine,
not on what ran before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cut", "Resample", "SamplingPolicy"]

Cut = Literal["temperature", "top_k", "top_p"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample:
    """Repetition-aware resampling: a second draw replaces a repeated first one.

    If the first draw is no stop id and is among the last `window` tokens, a draw made with
    `temperature` and `top_p` (and the policy's top_k and order) is taken instead. The token
    of the prefill step is drawn without it and never enters the window (Fish Audio S2). A
    request of temperature 0 is never resampled.
    """

    window: int
    temperature: float
    top_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPolicy:
    """How a token is chosen from scores.

    The structure (`order`, `top_p_rule`, `allowed`, `stop`, `resample`) belongs to the
    family and is the same for every request of an engine; the numbers may differ by request.

    Attributes:
        temperature: 0 is greedy (argmax after steps 1 to 3).
        top_k: keep the k best; 0 keeps all. Scores equal to the k-th best are kept too.
        top_p: keep the smallest set of best ids whose probability reaches p; 1 keeps all.
        top_p_rule: `keep_crossing` keeps the id that crosses p (transformers' rule: what is
            barred are the worst ids whose cumulative probability, from the worst up, is
            <= 1 - p); `bar_crossing` bars every id whose cumulative probability from the
            best down, itself included, exceeds p. The best id always stays. Equal scores
            share the fate of the first of them.
        order: the order of the three cuts.
        repetition_penalty: 1 is none.
        repetition_window: how many of the latest tokens count; 0 means all.
        allowed: ranges [start, stop) of ids that may be chosen; empty allows all.
        stop: ids that end the request; their frame is not produced.
        min_tokens: stop ids are barred before this many tokens exist.
        resample: repetition-aware resampling, or None.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    top_p_rule: Literal["keep_crossing", "bar_crossing"] = "keep_crossing"
    order: tuple[Cut, Cut, Cut] = ("temperature", "top_k", "top_p")
    repetition_penalty: float = 1.0
    repetition_window: int = 0
    allowed: tuple[tuple[int, int], ...] = ()
    stop: tuple[int, ...] = ()
    min_tokens: int = 0
    resample: Resample | None = None
