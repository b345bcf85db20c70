"""The two decoders of Fish Audio S2 as data, read from a checkpoint's `config.json`.

The slow decoder predicts a semantic token per frame with a head tied to its text
embedding; the fast decoder predicts the residual codes and starts empty in every frame.
Both rotate interleaved pairs with tables rounded to bfloat16, also in float32 runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from omni_host.engines import (
    Attention,
    DecoderSpec,
    DenseMlp,
    FrameSpec,
    Head,
    Resample,
    Rope,
    SamplingPolicy,
    Table,
    TensorSource,
    WeightMap,
)

__all__ = ["fast", "frame", "residual_sampling", "slow", "slow_sampling"]


def _weights(prefix: str, config: Mapping[str, Any], **more: TensorSource) -> WeightMap:
    """The files fuse q, k and v into one matrix, rows in this order."""
    q = config["n_head"] * config["head_dim"]
    kv = config["n_local_heads"] * config["head_dim"]
    layer = f"{prefix}layers.{{layer}}."
    names = {
        "attention_norm": "attention_norm",
        "o": "attention.wo",
        "q_norm": "attention.q_norm",
        "k_norm": "attention.k_norm",
        "mlp_norm": "ffn_norm",
        "gate": "feed_forward.w1",
        "up": "feed_forward.w3",
        "down": "feed_forward.w2",
    }
    rows = {"q": (0, q), "k": (q, q + kv), "v": (q + kv, q + 2 * kv)}
    sources = {
        f"layers.{{layer}}.{ours}": TensorSource(name=f"{layer}{theirs}.weight")
        for ours, theirs in names.items()
    }
    for part, span in rows.items():
        sources[f"layers.{{layer}}.{part}"] = TensorSource(
            name=f"{layer}attention.wqkv.weight", rows=span
        )
    sources["norm"] = TensorSource(name=f"{prefix}norm.weight")
    return WeightMap(sources=sources | more)


def _decoder(config: Mapping[str, Any], weights: WeightMap, **more: Any) -> DecoderSpec:
    return DecoderSpec(
        width=config["dim"],
        attention=Attention(
            heads=config["n_head"],
            kv_heads=config["n_local_heads"],
            head_dim=config["head_dim"],
            qk_norm=config["attention_qk_norm"],
            qkv_bias=config["attention_qkv_bias"],
            out_bias=config["attention_o_bias"],
        ),
        rope=Rope(theta=float(config["rope_base"]), layout="interleaved", table_dtype="bfloat16"),
        mlps=(DenseMlp(intermediate=config["intermediate_size"]),) * config["n_layer"],
        norm_eps=config["norm_eps"],
        weights=weights,
        **more,
    )


def slow(config: Mapping[str, Any]) -> DecoderSpec:
    """The slow decoder. `config` is the whole `config.json`; prompt rows are given."""
    text = config["text_config"]
    tied = text["tie_word_embeddings"]
    embedding = TensorSource(name="text_model.model.embeddings.weight")
    head = {} if tied else {"head": TensorSource(name="text_model.model.output.weight")}
    return _decoder(
        text,
        _weights("text_model.model.", text, embedding=embedding, **head),
        vocabulary=text["vocab_size"],
        head=Head(vocabulary=text["vocab_size"], tied=tied),
        capture=(-1,),
        max_positions=text["max_seq_len"],
    )


def fast(config: Mapping[str, Any]) -> DecoderSpec:
    """The fast decoder: as many rows a frame as there are codes."""
    audio = config["audio_decoder_config"]
    codes = audio["num_codebooks"]
    weights = _weights("audio_decoder.", audio)
    return _decoder(audio, weights, frame_length=codes, max_positions=codes)


def frame(config: Mapping[str, Any]) -> FrameSpec:
    """A frame: code 0 is the semantic token less its offset, the others come from `fast`.

    The slow decoder's next row is (embedding of the token + the codes' rows) / sqrt(Q+1).
    """
    text, audio = config["text_config"], config["audio_decoder_config"]
    codes, size = audio["num_codebooks"], audio["vocab_size"]
    start = config["semantic_start_token_id"]
    embedding = Table(source=TensorSource(name="audio_decoder.embeddings.weight"), size=size)
    codebooks = TensorSource(name="audio_decoder.codebook_embeddings.weight")
    return FrameSpec(
        decoder=fast(config),
        codes=codes,
        first_code_offset=start,
        first_code_size=config["semantic_end_token_id"] - start + 1,
        inputs=(embedding,) * (codes - 1),
        heads=(TensorSource(name="audio_decoder.output.weight"),) * (codes - 1),
        feedback=tuple(Table(source=codebooks, size=size, offset=size * i) for i in range(codes)),
        token_feedback=Table(
            source=TensorSource(name="text_model.model.embeddings.weight"), size=text["vocab_size"]
        ),
        feedback_scale=1 / sqrt(codes + 1),
        sampling=residual_sampling(),
    )


def slow_sampling(config: Mapping[str, Any]) -> SamplingPolicy:
    """Semantic ids and the end only; both cuts before the temperature; resampling.

    A draw that stands among the last ten tokens is replaced by one at temperature 1.0 and
    top_p 0.9, as the reference's long-form generation does.
    """
    stop = config["eos_token_id"]
    semantic = (config["semantic_start_token_id"], config["semantic_end_token_id"] + 1)
    return SamplingPolicy(
        temperature=1.0,
        top_k=30,
        top_p=0.9,
        top_p_rule="bar_crossing",
        order=("top_p", "top_k", "temperature"),
        allowed=(semantic, (stop, stop + 1)),
        stop=(stop,),
        resample=Resample(window=10, temperature=1.0, top_p=0.9),
    )


def residual_sampling() -> SamplingPolicy:
    """The same cuts, neither bars nor resampling."""
    return SamplingPolicy(
        temperature=1.0,
        top_k=30,
        top_p=0.9,
        top_p_rule="bar_crossing",
        order=("top_p", "top_k", "temperature"),
    )
