"""Weight maps of naming conventions that many checkpoints share."""

from __future__ import annotations

from omni_host.engines.decoder import TensorSource, WeightMap

__all__ = ["transformers_weights"]

_LAYER = {
    "attention_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q.bias": "self_attn.q_proj.bias",
    "k.bias": "self_attn.k_proj.bias",
    "v.bias": "self_attn.v_proj.bias",
    "o.bias": "self_attn.o_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "router": "mlp.gate.weight",
    "experts.{expert}.gate": "mlp.experts.{expert}.gate_proj.weight",
    "experts.{expert}.up": "mlp.experts.{expert}.up_proj.weight",
    "experts.{expert}.down": "mlp.experts.{expert}.down_proj.weight",
    "shared.gate": "mlp.shared_expert.gate_proj.weight",
    "shared.up": "mlp.shared_expert.up_proj.weight",
    "shared.down": "mlp.shared_expert.down_proj.weight",
    "shared_gate": "mlp.shared_expert_gate.weight",
}


def transformers_weights(
    prefix: str, *, embedding: str | None = None, head: str | None = None
) -> WeightMap:
    """The names that transformers gives Llama-like decoders, dense or MoE.

    Args:
        prefix: what stands before `layers.N` and `norm.weight`, with its dot.
        embedding, head: full names of the embedding and head matrices, where there are any.

    A map may name more than a spec uses; only what the spec asks for is read.
    """
    sources = {
        f"layers.{{layer}}.{ours}": TensorSource(name=f"{prefix}layers.{{layer}}.{theirs}")
        for ours, theirs in _LAYER.items()
    }
    sources["norm"] = TensorSource(name=f"{prefix}norm.weight")
    if embedding is not None:
        sources["embedding"] = TensorSource(name=embedding)
    if head is not None:
        sources["head"] = TensorSource(name=head)
    return WeightMap(sources=sources)
