"""A decoder as data: the layers, and where each weight stands in a checkpoint.

A `DecoderSpec` says everything an engine needs to build a Llama-like decoder from its
own layers, and nothing about a family: no class names, no code. It holds plain data
and imports no torch, so it can be written down, compared and sent elsewhere
(`omni_host.engines.spec_data`).

Every weight has a canonical name, and `WeightMap` says where it stands in the files:

    embedding                             [vocabulary, width]
    layers.{layer}.attention_norm         [width]
    layers.{layer}.{q,k,v}[.bias]         [heads * head_dim, width]
    layers.{layer}.{q,k}_norm             [head_dim]
    layers.{layer}.o[.bias]               [width, heads * head_dim]
    layers.{layer}.mlp_norm               [width]
    layers.{layer}.{gate,up,down}         dense MLP: down(silu(gate x) * up x)
    layers.{layer}.router                 [experts, width]
    layers.{layer}.experts.{expert}.{gate,up,down}
    layers.{layer}.shared.{gate,up,down}  the shared expert
    layers.{layer}.shared_gate            [1, width], sigmoid
    norm                                  [width]
    head                                  [vocabulary, width]; absent when tied
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Attention",
    "DecoderSpec",
    "DenseMlp",
    "Head",
    "MoeMlp",
    "Rope",
    "TableDtype",
    "TensorSource",
    "WeightMap",
]

TableDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embedding over the whole of each head (RoFormer, arXiv 2104.09864).

    Attributes:
        theta: the base of the frequencies, theta^(-2i/head_dim).
        layout: `neox` rotates (x[i], x[i + head_dim/2]), `interleaved` (x[2i], x[2i+1]).
        sections: none for one position a row; otherwise how many of the head_dim/2
            frequencies follow each of the three position rows (time, height, width;
            M-RoPE of Qwen2-VL, arXiv 2409.12191).
        sections_interleaved: frequency i follows row i mod 3 as long as i < 3 * sections[i mod 3],
            else time (Qwen3-VL); False gives each row a contiguous block.
        table_dtype: what cos and sin are rounded to; the rotation itself is float32.
        fractional: positions may be fractions; they are kept in float32, never truncated.
    """

    theta: float
    layout: Literal["neox", "interleaved"] = "neox"
    sections: tuple[int, ...] = ()
    sections_interleaved: bool = False
    table_dtype: TableDtype = "float32"
    fractional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Grouped-query attention, causal, scaled by head_dim^-0.5.

    `windows` gives each layer's sliding window in rows, itself included, or None for
    full attention; empty means full attention everywhere. `qk_norm` is an RMSNorm over
    each head of q and k, before the rotation.
    """

    heads: int
    kv_heads: int
    head_dim: int
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    windows: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMlp:
    """down(silu(gate x) * up x)."""

    intermediate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeMlp:
    """Experts of the dense form; the router's softmax is float32.

    Attributes:
        experts, top_k: how many there are, how many a row visits.
        renormalise: the chosen weights are divided by their sum.
        shared_intermediate: width of an expert that every row visits, or 0.
        shared_gate: the shared expert's output is scaled by sigmoid(shared_gate x).
    """

    experts: int
    top_k: int
    intermediate: int
    renormalise: bool = True
    shared_intermediate: int = 0
    shared_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The output head: `vocabulary` scores, its own matrix or the embedding's (`tied`)."""

    vocabulary: int
    tied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSource:
    """A tensor in the checkpoint, or `rows` [start, stop) of it where files fuse several."""

    name: str
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMap:
    """Canonical name -> place in the checkpoint.

    Keys and source names may hold `{layer}` and `{expert}`, filled in alike on both sides.
    """

    sources: Mapping[str, TensorSource] = field(default_factory=dict[str, TensorSource])

    def locate(
        self, name: str, *, layer: int | None = None, expert: int | None = None
    ) -> TensorSource:
        """Where the weight with this canonical template stands.

        Raises KeyError with the canonical name if the map does not have it.
        """
        source = self.sources[name]
        filled = source.name.format(layer=layer, expert=expert)
        return TensorSource(name=filled, rows=source.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSpec:
    """A stack of pre-norm decoder layers.

    Attributes:
        width: of the residual stream.
        mlps: one per layer, which so gives the number of layers.
        norm_eps: of every RMSNorm.
        vocabulary: rows of its own token embedding, or 0 if rows are always given.
        head: its output head, or None where a `FrameSpec` has heads for each pass.
        inject_after: layers after which rows of the prompt may be added to the residual
            (deepstack of Qwen3-VL).
        capture: layers whose leaving residual, unnormed and after injection, can be had
            for rows that ask for it; -1 is the state after the final norm.
        frame_length: 0 for a paged cache that grows with the request; n for a cache of n
            rows that starts empty in every frame.
        max_positions: the longest sequence, in rows.
    """

    width: int
    attention: Attention
    rope: Rope
    mlps: tuple[DenseMlp | MoeMlp, ...]
    weights: WeightMap
    norm_eps: float = 1e-6
    vocabulary: int = 0
    head: Head | None = None
    inject_after: tuple[int, ...] = ()
    capture: tuple[int, ...] = ()
    frame_length: int = 0
    max_positions: int = 32768

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.mlps)
