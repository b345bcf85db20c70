"""A decoder built from its spec: the layers, apart from where keys and values are kept.

The same stack serves the nested decoder of a frame and the torch engine's own decoder;
they differ in the `attend` that they pass in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines.decoder import DecoderSpec, DenseMlp, MoeMlp
from omni_host.engines.layers import (
    DenseWeights,
    MoeWeights,
    RotaryTables,
    mlp,
    rms_norm,
    rotate,
)
from omni_host.engines.weights import DecoderWeights, Weights

__all__ = ["Attend", "DecoderStack", "Inject"]

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, queries [N, heads, head_dim], keys then values [N, 2 * kv_heads, head_dim])
-> [N, heads * head_dim]. It keeps the keys and values and attends over what came before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """Rows [n, width] to add to the residual after a layer, at rows [n] of the batch."""

    layer: int
    at: Tensor
    rows: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    qk_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    mlp: DenseWeights | MoeWeights


class DecoderStack:
    """The layers and the final norm, with their weights."""

    def __init__(self, spec: DecoderSpec, weights: Weights) -> None:
        self.spec = spec
        self.rope = RotaryTables(spec.rope, spec.attention.head_dim, weights.device)
        named = DecoderWeights(weights=weights, names=spec.weights)
        self._layers = [_load_layer(spec, named, layer) for layer in range(spec.layers)]
        self._norm = named.take("norm", (spec.width,))

    def forward(
        self,
        rows: Tensor,
        rotary: tuple[Tensor, Tensor],
        attend: Attend,
        *,
        inject: Sequence[Inject] = (),
        capture: Sequence[int] = (),
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Rows [N, width] -> the state after the final norm [N, width], and the captured ones.

        `rotary` is `rope.at(positions)`; `capture` lists layers as in the spec.
        """
        residual = rows
        captured: dict[int, Tensor] = {}
        for layer, weights in enumerate(self._layers):
            attended = self._attention(layer, weights, residual, rotary, attend)
            residual = residual + attended
            hidden = rms_norm(residual, weights.mlp_norm, self.spec.norm_eps)
            residual = residual + mlp(hidden, weights.mlp, self.spec.mlps[layer])
            for added in inject:
                if added.layer == layer:
                    residual = residual.index_add(0, added.at, added.rows.to(residual.dtype))
            if layer in capture:
                captured[layer] = residual
        state = rms_norm(residual, self._norm, self.spec.norm_eps)
        if -1 in capture:
            captured[-1] = state
        return state, captured

    def _attention(
        self,
        layer: int,
        weights: _Layer,
        residual: Tensor,
        rotary: tuple[Tensor, Tensor],
        attend: Attend,
    ) -> Tensor:
        sizes = self.spec.attention
        hidden = rms_norm(residual, weights.attention_norm, self.spec.norm_eps)
        qkv = functional.linear(hidden, weights.qkv, weights.qkv_bias)
        qkv = qkv.view(-1, sizes.heads + 2 * sizes.kv_heads, sizes.head_dim)
        turned = qkv[:, : sizes.heads + sizes.kv_heads]
        if weights.qk_norm is not None:
            turned = functional.rms_norm(turned, (sizes.head_dim,), None, self.spec.norm_eps)
            turned = turned * weights.qk_norm
        turned = rotate(turned, *rotary, self.spec.rope.layout)
        keys_values = torch.cat((turned[:, sizes.heads :], qkv[:, -sizes.kv_heads :]), dim=1)
        attended = attend(layer, turned[:, : sizes.heads], keys_values)
        return functional.linear(attended, weights.out, weights.out_bias)


def _load_layer(spec: DecoderSpec, weights: DecoderWeights, layer: int) -> _Layer:
    sizes = spec.attention
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    heights = {"q": queries, "k": keys, "v": keys}

    def take(name: str, *shape: int) -> Tensor:
        return weights.take(f"layers.{{layer}}.{name}", shape, layer=layer)

    bias = [take(f"{name}.bias", height) for name, height in heights.items() if sizes.qkv_bias]
    norm = None
    if sizes.qk_norm:
        # One factor a head, so that queries and keys are normed at once.
        norm = torch.cat(
            (
                take("q_norm", sizes.head_dim).expand(sizes.heads, -1),
                take("k_norm", sizes.head_dim).expand(sizes.kv_heads, -1),
            )
        )
    return _Layer(
        attention_norm=take("attention_norm", spec.width),
        qkv=torch.cat([take(name, height, spec.width) for name, height in heights.items()]),
        qkv_bias=torch.cat(bias) if bias else None,
        qk_norm=norm,
        out=take("o", spec.width, queries),
        out_bias=take("o.bias", spec.width) if sizes.out_bias else None,
        mlp_norm=take("mlp_norm", spec.width),
        mlp=_load_mlp(spec, weights, layer),
    )


def _load_mlp(spec: DecoderSpec, weights: DecoderWeights, layer: int) -> DenseWeights | MoeWeights:
    mlp_spec = spec.mlps[layer]
    if isinstance(mlp_spec, DenseMlp):
        return _load_dense(spec, weights, layer, "layers.{layer}.", mlp_spec.intermediate)
    shared = None
    if mlp_spec.shared_intermediate:
        prefix, height = "layers.{layer}.shared.", mlp_spec.shared_intermediate
        shared = _load_dense(spec, weights, layer, prefix, height)
    gate_up, down = _load_experts(spec, mlp_spec, weights, layer)
    return MoeWeights(
        router=weights.take("layers.{layer}.router", (mlp_spec.experts, spec.width), layer=layer),
        gate_up=gate_up,
        down=down,
        shared=shared,
        shared_gate=weights.take("layers.{layer}.shared_gate", (1, spec.width), layer=layer)
        if mlp_spec.shared_gate
        else None,
    )


def _load_experts(
    spec: DecoderSpec, mlp_spec: MoeMlp, weights: DecoderWeights, layer: int
) -> tuple[Tensor, Tensor]:
    gates: list[Tensor] = []
    ups: list[Tensor] = []
    downs: list[Tensor] = []
    prefix, height = "layers.{layer}.experts.{expert}.", mlp_spec.intermediate
    for expert in range(mlp_spec.experts):
        at = {"layer": layer, "expert": expert}
        gates.append(weights.take(prefix + "gate", (height, spec.width), **at))
        ups.append(weights.take(prefix + "up", (height, spec.width), **at))
        downs.append(weights.take(prefix + "down", (spec.width, height), **at))
    # Grouped products want rows of whole 16 bytes; zeros add nothing to what comes out.
    unit = 16 // weights.weights.dtype.itemsize
    inner, outer = -height % unit, -spec.width % unit
    halves = [functional.pad(torch.stack(half), (0, outer, 0, inner)) for half in (gates, ups)]
    down = functional.pad(torch.stack(downs), (0, inner, 0, outer))
    # Kept as stored and seen transposed: a column-major right factor costs nothing.
    return torch.cat(halves, dim=1).transpose(1, 2), down.transpose(1, 2)


def _load_dense(
    spec: DecoderSpec,
    weights: DecoderWeights,
    layer: int,
    prefix: str,
    intermediate: int,
) -> DenseWeights:
    def take(name: str, *shape: int) -> Tensor:
        return weights.take(prefix + name, shape, layer=layer)

    halves = [take(name, intermediate, spec.width) for name in ("gate", "up")]
    return DenseWeights(gate_up=torch.cat(halves), down=take("down", spec.width, intermediate))
