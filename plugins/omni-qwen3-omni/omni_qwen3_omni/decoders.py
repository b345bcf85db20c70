"""The three decoders of Qwen3-Omni as data, read from a checkpoint's `config.json`.

Thinker: a MoE with interleaved M-RoPE whose first layers receive vision features
(deepstack) and whose accept layer conditions the talker. Talker: a MoE with a shared
expert. Code predictor: dense (Qwen3-Omni technical report, arXiv 2509.17765; names and
arithmetic as in transformers 5.12.1, `qwen3_omni_moe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_host.engines import (
    Attention,
    DecoderSpec,
    DenseMlp,
    FrameSpec,
    Head,
    MoeMlp,
    Rope,
    SamplingPolicy,
    Table,
    TensorSource,
)
from omni_host.engines.layouts import transformers_weights

__all__ = [
    "code_predictor",
    "frame",
    "residual_sampling",
    "talker",
    "talker_sampling",
    "thinker",
    "thinker_sampling",
]

SPECIAL_IDS = 1024
"""The last ids of the talker's vocabulary are marks and speakers, never codes."""


def _rope(config: Mapping[str, Any], *, sections: bool) -> Rope:
    """transformers 5 writes `rope_parameters`, the hub's files `rope_theta` and `rope_scaling`."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = config.get("rope_theta") or scaling["rope_theta"]
    if not sections:
        return Rope(theta=float(theta))
    return Rope(
        theta=float(theta),
        sections=tuple(scaling["mrope_section"]),
        sections_interleaved=True,
        fractional=True,
    )


def _attention(config: Mapping[str, Any]) -> Attention:
    bias = config.get("attention_bias", False)
    return Attention(
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        qk_norm=True,
        qkv_bias=bias,
        out_bias=bias,
    )


def _mlps(config: Mapping[str, Any]) -> tuple[DenseMlp | MoeMlp, ...]:
    """Sparse layers every `decoder_sparse_step`, save those in `mlp_only_layers`."""
    shared = config.get("shared_expert_intermediate_size", 0)
    dense = DenseMlp(intermediate=config["intermediate_size"])
    sparse = MoeMlp(
        experts=config.get("num_experts") or config["num_local_experts"],
        top_k=config["num_experts_per_tok"],
        intermediate=config["moe_intermediate_size"],
        renormalise=config["norm_topk_prob"],
        shared_intermediate=shared,
        shared_gate=shared > 0,
    )
    step, only_dense = config.get("decoder_sparse_step", 1), config.get("mlp_only_layers", ())
    return tuple(
        sparse if i not in only_dense and (i + 1) % step == 0 else dense
        for i in range(config["num_hidden_layers"])
    )


def thinker(config: Mapping[str, Any]) -> DecoderSpec:
    """The thinker. `config` is the whole `config.json`.

    `capture` names the layer whose leaving residual the talker is conditioned on: the
    reference's accept layer n is the state that enters layer n, so that leaves layer n-1.
    """
    text = config["thinker_config"]["text_config"]
    deepstack = len(config["thinker_config"]["vision_config"]["deepstack_visual_indexes"])
    return DecoderSpec(
        width=text["hidden_size"],
        attention=_attention(text),
        rope=_rope(text, sections=True),
        mlps=_mlps(text),
        norm_eps=text["rms_norm_eps"],
        vocabulary=text["vocab_size"],
        head=Head(vocabulary=text["vocab_size"], tied=text.get("tie_word_embeddings", False)),
        weights=transformers_weights(
            "thinker.model.",
            embedding="thinker.model.embed_tokens.weight",
            head="thinker.lm_head.weight",
        ),
        inject_after=tuple(range(deepstack)),
        capture=(config["talker_config"]["accept_hidden_layer"] - 1,),
        max_positions=text["max_position_embeddings"],
    )


def talker(config: Mapping[str, Any]) -> DecoderSpec:
    """The talker. Its rows are always given."""
    text = config["talker_config"]["text_config"]
    return DecoderSpec(
        width=text["hidden_size"],
        attention=_attention(text),
        rope=_rope(text, sections=True),
        mlps=_mlps(text),
        norm_eps=text["rms_norm_eps"],
        head=Head(vocabulary=text["vocab_size"]),
        weights=transformers_weights("talker.model.", head="talker.codec_head.weight"),
        capture=(-1,),
        max_positions=text["max_position_embeddings"],
    )


def code_predictor(config: Mapping[str, Any]) -> DecoderSpec:
    """The code predictor: starts empty in every frame, has a head for each pass."""
    predictor = config["talker_config"]["code_predictor_config"]
    codes = predictor["num_code_groups"]
    return DecoderSpec(
        width=predictor["hidden_size"],
        attention=_attention(predictor),
        rope=_rope(predictor, sections=False),
        mlps=(DenseMlp(intermediate=predictor["intermediate_size"]),)
        * predictor["num_hidden_layers"],
        norm_eps=predictor["rms_norm_eps"],
        weights=transformers_weights("talker.code_predictor.model."),
        frame_length=codes,
        max_positions=codes,
    )


def frame(config: Mapping[str, Any]) -> FrameSpec:
    """A frame: code 0 from the talker, the others from the code predictor, widths equal."""
    talker_text = config["talker_config"]["text_config"]
    predictor = config["talker_config"]["code_predictor_config"]
    codes = predictor["num_code_groups"]
    first = Table(
        source=TensorSource(name="talker.model.codec_embedding.weight"),
        size=talker_text["vocab_size"],
    )
    rest = tuple(
        Table(
            source=TensorSource(name=f"talker.code_predictor.model.codec_embedding.{i}.weight"),
            size=predictor["vocab_size"],
        )
        for i in range(codes - 1)
    )
    return FrameSpec(
        decoder=code_predictor(config),
        codes=codes,
        first_code_size=talker_text["vocab_size"],
        inputs=(first, *rest[:-1]),
        heads=tuple(
            TensorSource(name=f"talker.code_predictor.lm_head.{i}.weight") for i in range(codes - 1)
        ),
        feedback=(first, *rest),
        sampling=residual_sampling(),
    )


def thinker_sampling(stop: tuple[int, ...]) -> SamplingPolicy:
    """The thinker is greedy unless the request says otherwise; it stops at `<|im_end|>`."""
    return SamplingPolicy(temperature=0.0, stop=stop)


def talker_sampling(config: Mapping[str, Any]) -> SamplingPolicy:
    """The reference's sampling of code 0: penalty, codes and the end only, cuts."""
    vocabulary = config["talker_config"]["text_config"]["vocab_size"]
    stop = config["talker_config"]["codec_eos_token_id"]
    return SamplingPolicy(
        temperature=0.9,
        top_k=50,
        top_p=1.0,
        repetition_penalty=1.05,
        allowed=((0, vocabulary - SPECIAL_IDS), (stop, stop + 1)),
        stop=(stop,),
    )


def residual_sampling() -> SamplingPolicy:
    """The reference's sampling of the other codes, fixed in its code."""
    return SamplingPolicy(temperature=1.0, top_k=50, top_p=0.8)
