"""The nested decoder at work: Q codes from a hidden state and a token.

Its caches are dense and of fixed size, every pass has fixed shapes, and nothing on the
device is looked at, so a whole frame can be part of a captured graph.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines import draws
from omni_host.engines.attention import causal_mask, grouped_attention
from omni_host.engines.decoder_stack import DecoderStack
from omni_host.engines.frame import FrameSpec, Projection
from omni_host.engines.sampler import CutNumbers, SamplingPlan, choose
from omni_host.engines.sampling import SamplingPolicy
from omni_host.engines.spec_checks import check_decoder
from omni_host.engines.tables import TableBank
from omni_host.engines.weights import Weights
from omni_host.errors import ConfigError

__all__ = ["FrameDecoder"]


class FrameDecoder:
    """Decodes frames for a batch of outer hidden states."""

    def __init__(
        self, spec: FrameSpec, outer_width: int, bank: TableBank, weights: Weights
    ) -> None:
        """`bank` holds the tables of `spec.inputs` (`Feedback.bank`).

        Raises ConfigError for a spec that contradicts itself, StageStartError for weights.
        """
        _check(spec, outer_width)
        self.spec = spec
        self._bank = bank
        self._starts = [bank.start(table) for table in spec.inputs]
        self._stack = DecoderStack(spec.decoder, weights)
        width = spec.decoder.width
        self._projection = _load_projection(spec.projection, width, outer_width, weights)
        self._heads = [
            weights.take(source, (size, width), f"head of code {code}")
            for code, (source, size) in enumerate(zip(spec.heads, _sizes(spec), strict=True), 1)
        ]
        device = weights.device
        positions = torch.arange(spec.codes, dtype=torch.float32, device=device)
        self._cos, self._sin = self._stack.rope.at(positions[None])
        self._spread = draws.spread_ids(torch.arange(max(_sizes(spec)), device=device))
        streams = [code << 16 for code in range(1, spec.codes)]
        self._streams = torch.tensor(streams, dtype=torch.int64, device=device)
        self._first_mask = causal_mask(0, 2, None, device)

    def decode(
        self,
        hidden: Tensor,
        tokens: Tensor,
        *,
        roots: Tensor,
        frames: Tensor,
        numbers: CutNumbers,
        plan: SamplingPlan,
    ) -> Tensor:
        """Decode one frame a row.

        Args:
            hidden: the outer states after the final norm, [B, outer width].
            tokens: the outer tokens, int64 [B].
            roots, frames: of the draws: int64 [B, 2] and [B] (`omni_host.engines.draws`).
            numbers: of the residual policy, one a row.

        Returns: the codes, int64 [B, Q].
        """
        batch = len(tokens)
        noise = None
        if plan.draws:
            noise = draws.gumbel(draws.keys(roots, frames, self._streams), self._spread)
        code = (tokens - self.spec.first_code_offset).clamp(0, self.spec.first_code_size - 1)
        codes = [code]
        cache = self._cache(batch, hidden)
        rows = torch.stack((hidden, self._bank.embed(code, self._starts[0])), dim=1)
        for index, head in enumerate(self._heads):
            if index:
                rows = self._bank.embed(code, self._starts[index])[:, None]
            state = self._pass(rows, index + 2 - rows.shape[1], cache)
            scores = functional.linear(state, head).float()
            drawn = None if noise is None else noise[:, index, : scores.shape[-1]]
            code = choose(scores, numbers, self.spec.sampling, plan, drawn)
            codes.append(code)
        return torch.stack(codes, dim=1)

    def _cache(self, batch: int, like: Tensor) -> Tensor:
        """Keys and values: [layers, B, Q, 2 * kv_heads, head_dim]."""
        decoder = self.spec.decoder
        sizes = decoder.attention
        return like.new_empty(
            decoder.layers, batch, self.spec.codes, 2 * sizes.kv_heads, sizes.head_dim
        )

    def _pass(self, rows: Tensor, first: int, cache: Tensor) -> Tensor:
        """Rows [B, n, outer width] at positions from `first` -> the last one's state [B, width]."""
        batch, new = rows.shape[:2]
        sizes = self.spec.decoder.attention
        mask = self._first_mask if new > 1 else None

        def attend(layer: int, queries: Tensor, keys_values: Tensor) -> Tensor:
            kept = cache[layer]
            kept[:, first : first + new] = keys_values.view(batch, new, *keys_values.shape[1:])
            shaped = queries.reshape(batch, new, sizes.heads, sizes.head_dim)
            return grouped_attention(shaped, kept[:, : first + new], mask)

        span = slice(first, first + new)
        rotary = (self._cos[span].repeat(batch, 1), self._sin[span].repeat(batch, 1))
        flat = self._project(rows).view(batch * new, -1)
        state, _ = self._stack.forward(flat, rotary, attend)
        return state.view(batch, new, -1)[:, -1]

    def _project(self, rows: Tensor) -> Tensor:
        if self._projection is None:
            return rows
        weight, bias = self._projection
        return functional.linear(rows, weight, bias)


def _load_projection(
    projection: Projection | None, width: int, outer_width: int, weights: Weights
) -> tuple[Tensor, Tensor | None] | None:
    if projection is None:
        return None
    weight = weights.take(projection.weight, (width, outer_width), "projection")
    if projection.bias is None:
        return weight, None
    return weight, weights.take(projection.bias, (width,), "projection bias")


def _sizes(spec: FrameSpec) -> list[int]:
    """How many codes there are at 1 .. Q-1, which is the height of the heads.

    The last code enters no nested table; its feedback table tells, or else the table before.
    """
    sizes = [table.size for table in spec.inputs[1:]]
    last = spec.feedback[-1] if len(spec.feedback) == spec.codes else None
    return [*sizes, (last or spec.inputs[-1]).size]


def _check(spec: FrameSpec, outer_width: int) -> None:
    decoder = spec.decoder
    check_decoder(decoder, field="frame.decoder")
    problems = {
        "codes": spec.codes < 2,
        "inputs": len(spec.inputs) != spec.codes - 1,
        "heads": len(spec.heads) != spec.codes - 1,
        "feedback": len(spec.feedback) > spec.codes,
        "decoder.frame_length": decoder.frame_length != spec.codes,
        "decoder.width": spec.projection is None and decoder.width != outer_width,
        "decoder.attention.windows": any(
            window is not None and window < spec.codes for window in decoder.attention.windows
        ),
        "sampling": spec.sampling != _residual_form(spec.sampling),
    }
    for name, wrong in problems.items():
        if wrong:
            raise ConfigError(
                f"the frame's {name} does not fit a frame of {spec.codes} codes "
                f"around a decoder {outer_width} wide",
                field=f"frame.{name}",
            )


def _residual_form(policy: SamplingPolicy) -> SamplingPolicy:
    """A policy with what residual codes have: they have no history and no stop ids."""
    return SamplingPolicy(
        temperature=policy.temperature,
        top_k=policy.top_k,
        top_p=policy.top_p,
        top_p_rule=policy.top_p_rule,
        order=policy.order,
    )
