"""The arithmetic of decoder layers in plain torch: norms, rotary positions, MLPs, experts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines.decoder import DenseMlp, MoeMlp, Rope

__all__ = [
    "DenseWeights",
    "MoeWeights",
    "RotaryTables",
    "dense_mlp",
    "moe_mlp",
    "rms_norm",
    "rotate",
]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last axis, its statistics in float32; [..., width]."""
    return functional.rms_norm(x, weight.shape[-1:], weight, eps)


class RotaryTables:
    """Cosines and sines for rows at given positions."""

    def __init__(self, rope: Rope, head_dim: int, device: torch.device | str) -> None:
        half = head_dim // 2
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        self._inverse = (1.0 / rope.theta**exponent).to(device)
        self._dtype = torch.bfloat16 if rope.table_dtype == "bfloat16" else torch.float32
        self._follows = None
        if rope.sections:
            self._follows = torch.tensor(_section_rows(rope, half), device=device)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Positions float32 [P, N], P = 1 or 3 -> cos and sin, float32 [N, head_dim / 2].

        Positions are never truncated, so fractions keep their meaning.
        """
        if self._follows is None:
            angles = positions[0][:, None] * self._inverse
        else:
            angles = positions.expand(3, -1)[self._follows].T * self._inverse
        return (
            angles.cos().to(self._dtype).to(torch.float32),
            angles.sin().to(self._dtype).to(torch.float32),
        )


def _section_rows(rope: Rope, half: int) -> list[int]:
    """Which of the three position rows each of the head_dim / 2 frequencies follows."""
    if not rope.sections_interleaved:
        return [row for row, count in enumerate(rope.sections) for _ in range(count)]
    return [i % 3 if i < 3 * rope.sections[i % 3] else 0 for i in range(half)]


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate heads [N, heads, head_dim] by cos and sin [N, head_dim / 2], in float32."""
    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    if layout == "neox":
        first, second = x[..., :half].float(), x[..., half:].float()
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = x[..., ::2].float(), x[..., 1::2].float()
        turned = torch.stack(
            (first * cos - second * sin, second * cos + first * sin), dim=-1
        ).flatten(-2)
    return turned.to(x.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseWeights:
    """gate and up stacked [2 * intermediate, width]; down [width, intermediate]."""

    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeWeights:
    """Router [experts, width]; experts stacked and transposed for products from the right:
    gate_up [experts, width, 2 * intermediate], down [experts, intermediate, width], both
    sizes padded with zeros to what grouped products accept."""

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared: DenseWeights | None = None
    shared_gate: Tensor | None = None


def _gated(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def dense_mlp(x: Tensor, weights: DenseWeights) -> Tensor:
    """down(silu(gate x) * up x); [N, width] -> [N, width]."""
    return functional.linear(_gated(functional.linear(x, weights.gate_up)), weights.down)


def moe_mlp(x: Tensor, weights: MoeWeights, spec: MoeMlp) -> Tensor:
    """Each row through its top_k experts; [N, width] -> [N, width].

    Rows are sorted by expert and multiplied in groups, whose bounds stay on the device.
    """
    rows, width = x.shape
    scores = functional.linear(x, weights.router).float().softmax(-1)
    share, chosen = scores.topk(spec.top_k, dim=-1)
    if spec.renormalise:
        share = share / share.sum(-1, keepdim=True)
    order = chosen.flatten().argsort(stable=True)
    visits = chosen.flatten()[order]
    experts = torch.arange(spec.experts, device=x.device)
    bounds = torch.searchsorted(visits, experts, right=True).to(torch.int32)
    visitors = x[order // spec.top_k]
    if padding := weights.gate_up.shape[1] - width:
        visitors = functional.pad(visitors, (0, padding))
    hidden = functional.grouped_mm(visitors, weights.gate_up, offs=bounds)
    outputs = functional.grouped_mm(_gated(hidden), weights.down, offs=bounds)[:, :width]
    placed = torch.empty_like(outputs).index_copy_(0, order, outputs)
    weighted = placed.view(rows, spec.top_k, width) * share.to(x.dtype)[..., None]
    return weighted.sum(1) + _shared(x, weights)


def _shared(x: Tensor, weights: MoeWeights) -> Tensor | float:
    if weights.shared is None:
        return 0.0
    output = dense_mlp(x, weights.shared)
    if weights.shared_gate is None:
        return output
    return torch.sigmoid(functional.linear(x, weights.shared_gate)) * output


def mlp(x: Tensor, weights: DenseWeights | MoeWeights, spec: DenseMlp | MoeMlp) -> Tensor:
    """Either kind, as the layer's spec says."""
    if isinstance(weights, MoeWeights):
        assert isinstance(spec, MoeMlp)
        return moe_mlp(x, weights, spec)
    return dense_mlp(x, weights)
