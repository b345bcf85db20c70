"""A decoder of any spec, built from SGLang's layers.

`OmniDecoder` is the class that SGLang's runner loads and calls. It takes rows, never ids:
in a decode step `input_ids` number the slots of `decode_rows`, so that a captured graph
reads what the engine wrote there before; in a prefill the engine hands `prefill` over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from omni_host.engines.decoder import DecoderSpec, DenseMlp, MoeMlp
from omni_host.engines.layers import RotaryTables, rotate
from omni_host.engines.sglang_engine.description import described
from omni_host.engines.sglang_engine.symbols import Sglang, load
from omni_host.engines.weights import DecoderWeights, open_weights

__all__ = ["Added", "OmniDecoder", "Prefill"]

Load = Callable[..., Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Rows [n, width] to add to the residual after `layer`, at rows [n] of the batch."""

    layer: int
    at: Tensor
    rows: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """What enters a prefill: rows [n, width], positions float32 [P, n], rows to inject."""

    rows: Tensor
    positions: Tensor
    inject: tuple[Added, ...] = ()


class OmniDecoder(nn.Module):
    """The decoder; see the module."""

    decode_rows: Tensor
    decode_positions: Tensor

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        super().__init__()
        self.about = described(config.omni)
        self.spec = spec = self.about.decoder
        sgl = load(self.about.device)
        dtype = torch.get_default_dtype()
        self.config = config
        self.rotary = _Rotary(sgl, spec, self.about.device)
        self._stack = [_Layer(sgl, spec, i, self.rotary) for i in range(spec.layers)]
        self.layers = nn.ModuleList(self._stack)
        self.norm = sgl.RMSNorm(spec.width, eps=spec.norm_eps)
        self.head = sgl.ParallelLMHead(self.about.scored, spec.width)
        self.scorer = sgl.LogitsProcessor(config)
        self.prefill: Prefill | None = None
        slots, places = self.about.slots, 3 if spec.rope.sections else 1
        self.register_buffer(
            "decode_rows", torch.zeros(slots, spec.width, dtype=dtype), persistent=False
        )
        self.register_buffer(
            "decode_positions", torch.zeros(places, slots, dtype=torch.float32), persistent=False
        )

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        forward_batch: Any,
        input_embeds: Tensor | None = None,
        **_: Any,
    ) -> Any:
        """Scores of each request's last row; `hidden_states` are the states of every row,
        [n, (1 + captures) * width]: after the final norm, then each captured layer."""
        rows, where, inject = self._entering(input_ids, forward_batch)
        angles = self.rotary.at(where)
        hidden, residual = rows, None
        captured: list[Tensor] = []
        for i, layer in enumerate(self._stack):
            hidden, residual = layer(hidden, residual, angles, forward_batch)
            added = [one for one in inject if one.layer == i]
            if added or i in self.spec.capture:
                hidden, residual = hidden + residual, None
            for one in added:
                hidden = hidden.index_add(0, one.at, one.rows)
            if i in self.spec.capture:
                captured.append(hidden)
        state = self.norm(hidden) if residual is None else self.norm(hidden, residual)[0]
        output = self.scorer(input_ids, state, self.head, forward_batch)
        output.hidden_states = torch.cat((state, *captured), dim=-1) if captured else state
        return output

    def _entering(
        self, input_ids: Tensor, forward_batch: Any
    ) -> tuple[Tensor, Tensor, tuple[Added, ...]]:
        if forward_batch.forward_mode.is_decode() or self.prefill is None:
            return self.decode_rows[input_ids], self.decode_positions[:, input_ids], ()
        return self.prefill.rows, self.prefill.positions, self.prefill.inject

    def load_weights(self, weights: Any) -> None:
        """Read the checkpoint by the spec's map; the files that SGLang offers are not used."""
        about = self.about
        source = open_weights(
            about.weights,
            device=about.device,
            dtype=self.decode_rows.dtype,
            load_format=about.load_format,
            seed=about.seed,
        )
        named = DecoderWeights(weights=source, names=self.spec.weights)
        for i, layer in enumerate(self._stack):
            layer.load(partial(_take, named, i))
        width = (self.spec.width,)
        self.norm.weight.data.copy_(named.take("norm", width))
        head = self.spec.head
        assert head is not None
        table = named.take("embedding" if head.tied else "head", (head.vocabulary, *width))
        if about.candidates is not None:
            table = table[torch.tensor(about.candidates, device=table.device)]
        self.head.weight_loader(self.head.weight, table)


def _take(
    named: DecoderWeights, layer: int, name: str, *shape: int, expert: int | None = None
) -> Tensor:
    return named.take(f"layers.{{layer}}.{name}", shape, layer=layer, expert=expert)


def _put(parameter: Any, value: Tensor, *shard: Any) -> None:
    """Copy a whole weight into this rank's part of a (fused) parameter."""
    parameter.weight_loader(parameter, value, *shard)


class _Rotary:
    """SGLang's rotation where it computes what the spec says, else the shared tables.

    SGLang's keeps its tables in the model's dtype on a CPU, takes whole positions only and
    rounds to no other dtype.
    """

    def __init__(self, sgl: Sglang, spec: DecoderSpec, device: str) -> None:
        rope, self.head_dim = spec.rope, spec.attention.head_dim
        self.layout = rope.layout
        plain = not (rope.sections or rope.fractional) and rope.table_dtype == "float32"
        exact = device == "cuda" or torch.get_default_dtype() == torch.float32
        self.kernel = None
        if plain and exact:
            self.kernel = sgl.get_rope(
                self.head_dim,
                rotary_dim=self.head_dim,
                max_position=spec.max_positions,
                base=rope.theta,
                is_neox_style=rope.layout == "neox",
            )
        self.tables = RotaryTables(rope, self.head_dim, device)

    def at(self, positions: Tensor) -> Any:
        """Positions float32 [P, n] -> what `turn` needs of them, once a pass."""
        if self.kernel is not None:
            return positions[0].to(torch.int64)
        return self.tables.at(positions)

    def turn(self, queries: Tensor, keys: Tensor, angles: Any) -> tuple[Tensor, Tensor]:
        """Queries and keys [n, heads * head_dim], rotated."""
        if self.kernel is not None:
            return self.kernel(angles, queries, keys)
        return self._turned(queries, angles), self._turned(keys, angles)

    def _turned(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        heads = x.reshape(len(x), -1, self.head_dim)
        return rotate(heads, *angles, self.layout).view(x.shape)


class _Attention(nn.Module):
    def __init__(self, sgl: Sglang, spec: DecoderSpec, layer: int, rotary: _Rotary) -> None:
        super().__init__()
        sizes = spec.attention
        self.sizes, self.width, self.rotary = sizes, spec.width, rotary
        self.qkv = sgl.QKVParallelLinear(
            spec.width, sizes.head_dim, sizes.heads, sizes.kv_heads, bias=sizes.qkv_bias
        )
        self.out = sgl.RowParallelLinear(
            sizes.heads * sizes.head_dim, spec.width, bias=sizes.out_bias
        )
        self.q_norm = self.k_norm = None
        if sizes.qk_norm:
            self.q_norm = sgl.RMSNorm(sizes.head_dim, eps=spec.norm_eps)
            self.k_norm = sgl.RMSNorm(sizes.head_dim, eps=spec.norm_eps)
        window = sizes.windows[layer] if sizes.windows else None
        self.attend = sgl.RadixAttention(
            self.qkv.num_heads,
            sizes.head_dim,
            sizes.head_dim**-0.5,
            num_kv_heads=self.qkv.num_kv_heads,
            layer_id=layer,
        )
        if window is not None:
            # SGLang counts the rows before the current one. Its constructor takes 0 for none.
            self.attend.sliding_window_size = window - 1
        self.split = [self.qkv.num_heads * sizes.head_dim] + [
            self.qkv.num_kv_heads * sizes.head_dim
        ] * 2

    def forward(self, hidden: Tensor, angles: Any, forward_batch: Any) -> Tensor:
        qkv, _ = self.qkv(hidden)
        queries, keys, values = qkv.split(self.split, dim=-1)
        if self.q_norm is not None and self.k_norm is not None:
            size = self.sizes.head_dim
            queries = self.q_norm(queries.reshape(-1, size)).view(queries.shape)
            keys = self.k_norm(keys.reshape(-1, size)).view(keys.shape)
        queries, keys = self.rotary.turn(queries, keys, angles)
        return self.out(self.attend(queries, keys, values, forward_batch))[0]

    def load(self, take: Load) -> None:
        sizes = self.sizes
        heights = {"q": sizes.heads, "k": sizes.kv_heads, "v": sizes.kv_heads}
        for name, heads in heights.items():
            height = heads * sizes.head_dim
            _put(self.qkv.weight, take(name, height, self.width), name)
            if sizes.qkv_bias:
                _put(self.qkv.bias, take(f"{name}.bias", height), name)
        _put(self.out.weight, take("o", self.width, sizes.heads * sizes.head_dim))
        if sizes.out_bias:
            _put(self.out.bias, take("o.bias", self.width))
        if self.q_norm is not None and self.k_norm is not None:
            self.q_norm.weight.data.copy_(take("q_norm", sizes.head_dim))
            self.k_norm.weight.data.copy_(take("k_norm", sizes.head_dim))


class _DenseMlp(nn.Module):
    def __init__(self, sgl: Sglang, width: int, intermediate: int, *, reduce: bool = True) -> None:
        super().__init__()
        self.width, self.intermediate = width, intermediate
        self.gate_up = sgl.MergedColumnParallelLinear(width, [intermediate] * 2, bias=False)
        self.down = sgl.RowParallelLinear(intermediate, width, bias=False, reduce_results=reduce)
        self.gate = sgl.SiluAndMul()

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down(self.gate(self.gate_up(hidden)[0]))[0]

    def load(self, take: Load, prefix: str = "") -> None:
        for shard, name in enumerate(("gate", "up")):
            _put(self.gate_up.weight, take(prefix + name, self.intermediate, self.width), shard)
        _put(self.down.weight, take(f"{prefix}down", self.width, self.intermediate))


class _MoeMlp(nn.Module):
    """SGLang's fused experts, and the shared expert beside them."""

    def __init__(self, sgl: Sglang, spec: MoeMlp, width: int, layer: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.router = sgl.ReplicatedLinear(width, spec.experts, bias=False)
        self.choose = sgl.TopK(top_k=spec.top_k, renormalize=spec.renormalise, layer_id=layer)
        self.experts = sgl.get_moe_impl_class(None)(
            num_experts=spec.experts,
            top_k=spec.top_k,
            layer_id=layer,
            hidden_size=width,
            intermediate_size=spec.intermediate,
        )
        self.shared = self.shared_gate = None
        if spec.shared_intermediate:
            self.shared = _DenseMlp(sgl, width, spec.shared_intermediate, reduce=False)
        if spec.shared_gate:
            self.shared_gate = sgl.ReplicatedLinear(width, 1, bias=False)
        self.ranks = sgl.get_parallel().tp_size
        self.reduce = sgl.tensor_model_parallel_all_reduce

    def forward(self, hidden: Tensor) -> Tensor:
        # The experts may write over their input, so what else reads it comes first.
        chosen = self.choose(hidden, self.router(hidden)[0])
        beside = self._beside(hidden)
        output = self.experts(hidden, chosen)
        if beside is not None:
            output = output + beside
        return self.reduce(output) if self.ranks > 1 else output

    def _beside(self, hidden: Tensor) -> Tensor | None:
        if self.shared is None:
            return None
        output = self.shared(hidden)
        if self.shared_gate is None:
            return output
        return torch.sigmoid(self.shared_gate(hidden)[0]) * output

    def load(self, take: Load) -> None:
        spec, width = self.spec, self.width
        _put(self.router.weight, take("router", spec.experts, width))
        parts = {
            "gate": ("w1", self.experts.w13_weight, (spec.intermediate, width)),
            "up": ("w3", self.experts.w13_weight, (spec.intermediate, width)),
            "down": ("w2", self.experts.w2_weight, (width, spec.intermediate)),
        }
        for expert in range(spec.experts):
            for name, (shard, parameter, shape) in parts.items():
                value = take(f"experts.{{expert}}.{name}", *shape, expert=expert)
                _put(parameter, value, "weight", shard, expert)
        if self.shared is not None:
            self.shared.load(take, "shared.")
        if self.shared_gate is not None:
            _put(self.shared_gate.weight, take("shared_gate", 1, width))


class _Layer(nn.Module):
    def __init__(self, sgl: Sglang, spec: DecoderSpec, layer: int, rotary: _Rotary) -> None:
        super().__init__()
        self.width = spec.width
        self.attention_norm = sgl.RMSNorm(spec.width, eps=spec.norm_eps)
        self.attention = _Attention(sgl, spec, layer, rotary)
        self.mlp_norm = sgl.RMSNorm(spec.width, eps=spec.norm_eps)
        mlp = spec.mlps[layer]
        if isinstance(mlp, DenseMlp):
            self.mlp: Any = _DenseMlp(sgl, spec.width, mlp.intermediate)
        else:
            self.mlp = _MoeMlp(sgl, mlp, spec.width, layer)

    def forward(
        self, hidden: Tensor, residual: Tensor | None, angles: Any, forward_batch: Any
    ) -> tuple[Tensor, Tensor]:
        """The stream is hidden + residual, added up inside the norms."""
        if residual is None:
            normed, residual = self.attention_norm(hidden), hidden
        else:
            normed, residual = self.attention_norm(hidden, residual)
        attended = self.attention(normed, angles, forward_batch)
        normed, stream = self.mlp_norm(attended, residual)
        return self.mlp(normed), stream

    def load(self, take: Load) -> None:
        self.attention_norm.weight.data.copy_(take("attention_norm", self.width))
        self.mlp_norm.weight.data.copy_(take("mlp_norm", self.width))
        self.attention.load(take)
        self.mlp.load(take)
