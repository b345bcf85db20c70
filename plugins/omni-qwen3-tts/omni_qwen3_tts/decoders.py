"""The two decoders of Qwen3-TTS-12Hz as data, read from a checkpoint's `config.json`.

The talker predicts the first code of each frame, the code predictor the others
(Qwen3-TTS technical report, arXiv 2601.15621). Both are Qwen3 decoders. The three rows of
the talker's M-RoPE are always equal here, so it takes one position a row.
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
    Projection,
    Rope,
    SamplingPolicy,
    Table,
    TensorSource,
)
from omni_host.engines.layouts import transformers_weights

__all__ = ["code_predictor", "frame", "residual_sampling", "talker", "talker_sampling"]

SPECIAL_IDS = 1024
"""The last ids of the talker's vocabulary are marks, languages and speakers, never codes."""

MIN_TOKENS = 2
"""The reference bars the end of speech for the first two frames (`min_new_tokens`)."""


def _decoder(config: Mapping[str, Any], prefix: str, **more: Any) -> DecoderSpec:
    return DecoderSpec(
        width=config["hidden_size"],
        attention=Attention(
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            qk_norm=True,
            qkv_bias=config["attention_bias"],
            out_bias=config["attention_bias"],
        ),
        rope=Rope(theta=float(config["rope_theta"])),
        mlps=(DenseMlp(intermediate=config["intermediate_size"]),) * config["num_hidden_layers"],
        norm_eps=config["rms_norm_eps"],
        **more,
        weights=transformers_weights(prefix, head="talker.codec_head.weight"),
    )


def talker(config: Mapping[str, Any]) -> DecoderSpec:
    """The talker. `config` is the whole `config.json`. Its rows are always given.

    `capture` -1 gives the state after the final norm.
    """
    talker_config = config["talker_config"]
    return _decoder(
        talker_config,
        "talker.model.",
        head=Head(vocabulary=talker_config["vocab_size"]),
        capture=(-1,),
        max_positions=talker_config["max_position_embeddings"],
    )


def code_predictor(config: Mapping[str, Any]) -> DecoderSpec:
    """The code predictor: starts empty in every frame, has a head for each pass."""
    predictor = config["talker_config"]["code_predictor_config"]
    codes = predictor["num_code_groups"]
    return _decoder(
        predictor, "talker.code_predictor.model.", frame_length=codes, max_positions=codes
    )


def frame(config: Mapping[str, Any]) -> FrameSpec:
    """A frame: code 0 from the talker, the others from the code predictor.

    Embeddings have the talker's width on both sides; `small_to_mtp_projection` brings
    them to the predictor's where the widths differ (1.7B), and has no weights where not.
    """
    talker_config = config["talker_config"]
    predictor = talker_config["code_predictor_config"]
    codes, size = predictor["num_code_groups"], predictor["vocab_size"]
    first = Table(
        source=TensorSource(name="talker.model.codec_embedding.weight"),
        size=talker_config["vocab_size"],
    )
    rest = tuple(
        Table(
            source=TensorSource(name=f"talker.code_predictor.model.codec_embedding.{i}.weight"),
            size=size,
        )
        for i in range(codes - 1)
    )
    projected = predictor["hidden_size"] != talker_config["hidden_size"]
    name = "talker.code_predictor.small_to_mtp_projection"
    return FrameSpec(
        decoder=code_predictor(config),
        codes=codes,
        first_code_size=talker_config["vocab_size"],
        inputs=(first, *rest[:-1]),
        heads=tuple(
            TensorSource(name=f"talker.code_predictor.lm_head.{i}.weight") for i in range(codes - 1)
        ),
        feedback=(first, *rest),
        sampling=residual_sampling(),
        projection=Projection(
            weight=TensorSource(name=f"{name}.weight"), bias=TensorSource(name=f"{name}.bias")
        )
        if projected
        else None,
    )


def talker_sampling(config: Mapping[str, Any]) -> SamplingPolicy:
    """The reference's sampling of code 0: penalty, end barred at first, codes only, cuts."""
    talker_config = config["talker_config"]
    vocabulary, stop = talker_config["vocab_size"], talker_config["codec_eos_token_id"]
    return SamplingPolicy(
        temperature=0.9,
        top_k=50,
        top_p=1.0,
        repetition_penalty=1.05,
        allowed=((0, vocabulary - SPECIAL_IDS), (stop, stop + 1)),
        stop=(stop,),
        min_tokens=MIN_TOKENS,
    )


def residual_sampling() -> SamplingPolicy:
    """The reference's sampling of the other codes: cuts alone."""
    return SamplingPolicy(temperature=0.9, top_k=50, top_p=1.0)
