"""Makes `tests/goldens/shapes`: decoders of shapes that the other goldens do not have.

Each is a tiny checkpoint with random weights in the hub's names, and what the layers of
the reference compute with it: greedy, in float32, the whole sequence anew at every step,
so that nothing depends on a cache. Run it in an environment that has the reference:

    python -m tests.parity.recipes.shapes tts       qwen-tts 0.1.1, transformers 4.57.3
    python -m tests.parity.recipes.shapes omni      transformers 5.12.1
"""

from __future__ import annotations

import importlib.machinery
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

HOME = Path(__file__).resolve().parents[2] / "goldens" / "shapes"
LEAST_MARGIN = 1e-3
SPECIAL_IDS = 1024


def draw(module: nn.Module, seed: int) -> None:
    """Wide embeddings, matrices by fan-in, norms near one; rounded to bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in module.named_parameters():
        value = torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1:
            value = 0.1 * value + (1.0 if "norm" in name else 0.0)
        elif "embed" not in name:
            value /= weight.shape[-1] ** 0.5
        weight.data.copy_(value.bfloat16().float())


def choose(scores: Tensor, barred: Tensor | None, margins: list[float]) -> int:
    if barred is not None:
        scores = scores.masked_fill(barred, -torch.inf)
    best = scores.topk(2).values
    margins.append(float(best[0] - best[1]))
    return int(scores.argmax())


def penalised(scores: Tensor, history: list[int], penalty: float) -> Tensor:
    scores = scores.clone()
    seen = torch.tensor(sorted(set(history)), dtype=torch.long)
    scores[seen] = torch.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    return scores


def speak(
    run: Callable[[Tensor], Tensor],
    head: nn.Linear,
    first: nn.Embedding,
    predict: Callable[[Tensor, int], tuple[list[int], Tensor]],
    case: dict[str, Tensor],
    stop: int,
    frames: int,
    margins: list[float],
    barred_frames: int,
) -> list[list[int]]:
    """The loop of a talker: `run` gives normed states, `predict` the residual codes."""
    rows, made = case["rows"], []
    for k in range(frames):
        state = run(rows)[-1]
        scores = penalised(head(state), [frame[0] for frame in made], 1.05)
        barred = torch.zeros_like(scores, dtype=torch.bool)
        barred[-SPECIAL_IDS:] = True
        barred[stop] = k < barred_frames
        code = choose(scores, barred, margins)
        if code == stop:
            break
        rest, feedback = predict(torch.stack([state, first.weight[code]]), code)
        made.append([code, *rest])
        trailing = case["trailing"]
        added = trailing[k] if k < len(trailing) else case["pad"]
        rows = torch.cat([rows, (first.weight[code] + feedback + added)[None]])
    return made


def predictor(
    model: nn.Module,
    heads: nn.ModuleList,
    tables: nn.ModuleList,
    project: Callable[[Tensor], Tensor],
    margins: list[float],
) -> Callable[[Tensor, int], tuple[list[int], Tensor]]:
    def predict(rows: Tensor, code: int) -> tuple[list[int], Tensor]:
        codes: list[int] = []
        feedback = torch.zeros_like(rows[0])
        for head, table in zip(heads, tables, strict=True):
            state = model(inputs_embeds=project(rows)[None]).last_hidden_state[0, -1]
            codes.append(choose(head(state), None, margins))
            embedded = table.weight[codes[-1]]
            rows, feedback = torch.cat([rows, embedded[None]]), feedback + embedded
        return codes, feedback

    return predict


def recorded(width: int, prompt: int, trailing: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def rows(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return {"rows": rows(prompt, width), "trailing": rows(trailing, width), "pad": rows(width)}


def save(
    name: str,
    config: dict[str, Any],
    weights: dict[str, Tensor],
    cases: list[dict[str, Any]],
    shards: int,
    dtype: torch.dtype,
) -> None:
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    stored = {key: value.to(dtype).contiguous() for key, value in weights.items()}
    if shards == 1:
        save_file(stored, folder / "model.safetensors")
    else:
        names = sorted(stored)
        files = {
            key: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors"
            for i, key in enumerate(names)
        }
        for file in sorted(set(files.values())):
            save_file({key: stored[key] for key in names if files[key] == file}, folder / file)
        index = {"metadata": {}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    arrays = {
        f"{i}.{key}": np.asarray(value)
        for i, case in enumerate(cases)
        for key, value in case.items()
    }
    np.savez_compressed(folder / "cases.npz", **arrays)
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} kB")


def stub_what_the_12hz_model_never_calls() -> None:
    for name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi", "sox"):
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["torchaudio.compliance"].kaldi = sys.modules["torchaudio.compliance.kaldi"]


def tts(
    name: str,
    *,
    codes: int,
    size: int,
    talker: dict,
    nested: dict,
    shards: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    stub_what_the_12hz_model_never_calls()
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSTalkerConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSTalkerForConditionalGeneration

    shared = {
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "num_code_groups": codes,
    }
    stop = size + 6
    half = talker["head_dim"] // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    config = (
        shared
        | talker
        | {
            "vocab_size": size + SPECIAL_IDS,
            "text_vocab_size": 16,
            "text_hidden_size": 8,
            "codec_eos_token_id": stop,
            "rope_scaling": {
                "interleaved": True,
                "mrope_section": sections,
                "rope_type": "default",
                "type": "default",
            },
            "code_predictor_config": shared
            | nested
            | {"vocab_size": size, "rope_scaling": None, "use_sliding_window": False},
        }
    )
    made = Qwen3TTSTalkerConfig(**config)
    made._attn_implementation = "eager"
    made.code_predictor_config._attn_implementation = "eager"
    model = Qwen3TTSTalkerForConditionalGeneration(made).float().eval()
    draw(model, seed)
    margins: list[float] = []
    cases = []
    for i, (prompt, trailing, frames) in enumerate(((9, 4, 24), (23, 0, 18), (14, 40, 24))):
        case = recorded(talker["hidden_size"], prompt, trailing, seed + i)
        predict = predictor(
            model.code_predictor.model,
            model.code_predictor.lm_head,
            model.code_predictor.model.codec_embedding,
            model.code_predictor.small_to_mtp_projection,
            margins,
        )
        case["codes"] = speak(
            lambda rows: model.model(inputs_embeds=rows[None]).last_hidden_state[0],
            model.codec_head,
            model.model.codec_embedding,
            predict,
            case,
            stop,
            frames,
            margins,
            2,
        )
        cases.append(case | {"limit": frames})
    finish(name, margins, cases)
    kept = {f"talker.{k}": v for k, v in model.state_dict().items() if "text_" not in k}
    save(name, {"talker_config": config}, kept, cases, shards, dtype)


def finish(name: str, margins: list[float], cases: list[dict[str, Any]]) -> None:
    lengths = [len(case.get("codes", case.get("text_ids"))) for case in cases]
    print(f"{name}: smallest margin {min(margins):.1e}, lengths {lengths}")
    if min(margins) < LEAST_MARGIN:
        raise SystemExit(f"{name}: a choice is too close; take another seed")


def moe(text: dict, sections: list[int]) -> dict[str, Any]:
    rope = {
        "interleaved": True,
        "mrope_interleaved": True,
        "mrope_section": sections,
        "rope_type": "default",
        "type": "default",
        "rope_theta": 500000,
    }
    return {
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rope_theta": 500000,
        "rope_scaling": rope,
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "sliding_window": None,
        "use_sliding_window": False,
    } | text


def spatial(length: int, block: int, width: int) -> Tensor:
    """Positions [3, length] with a picture of `block` x `width` tokens at row 3.

    Its time is fractional, as a video's is.
    """
    where = torch.arange(length, dtype=torch.float32).repeat(3, 1)
    n = block * width
    where[0, 3 : 3 + n] = 3 + torch.arange(n) // (n // 2) * 6.5
    where[1, 3 : 3 + n] = 3 + torch.arange(n) // width % block
    where[2, 3 : 3 + n] = 3 + torch.arange(n) % width
    where[:, 3 + n :] = where[:, 3 : 3 + n].max() + 1 + torch.arange(length - 3 - n)
    return where


def extend(where: Tensor, length: int) -> Tensor:
    more = where.max() + 1 + torch.arange(length - where.shape[1])
    return torch.cat([where, more.repeat(3, 1)], 1)[:, None]


def thinker(
    name: str,
    *,
    text: dict,
    sections: list[int],
    deepstack: int,
    accept: int,
    shards: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
        Qwen3OmniMoeTextConfig,
    )
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
        Qwen3OmniMoeThinkerTextModel,
    )

    config = moe(text, sections)
    made = Qwen3OmniMoeTextConfig(**config)
    made._attn_implementation = made._experts_implementation = "eager"
    model = Qwen3OmniMoeThinkerTextModel(made).float().eval()
    draw(model, seed)
    tied = config["tie_word_embeddings"]
    head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
    draw(head, seed + 100)
    if tied:
        head.weight = model.embed_tokens.weight
    stop, margins, cases = 3, [], []
    for i, (length, pictured, limit) in enumerate(((12, False, 20), (27, True, 16))):
        generator = torch.Generator().manual_seed(seed + i)
        ids = torch.randint(4, config["vocab_size"], (length,), generator=generator)
        where = (
            spatial(length, 2, 4)
            if pictured
            else torch.arange(length, dtype=torch.float32).repeat(3, 1)
        )
        mask = torch.zeros(length, dtype=torch.bool)
        mask[3:11] = pictured
        rows = model.embed_tokens.weight[ids].clone()
        inject = [
            torch.randn(int(mask.sum()), config["hidden_size"], generator=generator)
            for _ in range(deepstack)
        ]
        made_ids, given = [], rows
        for _ in range(limit):
            now = torch.cat([mask, torch.zeros(len(given) - length, dtype=torch.bool)])
            out = model(
                inputs_embeds=given[None],
                position_ids=extend(where, len(given)),
                use_cache=False,
                visual_pos_masks=now[None] if pictured else None,
                deepstack_visual_embeds=inject if pictured else None,
            )
            made_ids.append(choose(head(out.last_hidden_state[0, -1]), None, margins))
            if made_ids[-1] == stop:
                break
            given = torch.cat([given, model.embed_tokens.weight[made_ids[-1]][None]])
        case = {"rows": rows, "positions": where, "text_ids": made_ids, "limit": limit}
        if pictured:
            case |= {"inject_at": mask.nonzero()[:, 0]} | {
                f"inject_{j}": r for j, r in enumerate(inject)
            }
        cases.append(case)
    finish(name, margins, cases)
    weights = {f"thinker.model.{k}": v for k, v in model.state_dict().items()}
    if not tied:
        weights["thinker.lm_head.weight"] = head.weight
    whole = {
        "im_end_token_id": stop,
        "thinker_config": {
            "text_config": config,
            "vision_config": {"deepstack_visual_indexes": list(range(deepstack))},
        },
        "talker_config": {"accept_hidden_layer": accept},
    }
    save(name, whole, split_experts(weights, config), cases, shards, dtype)


def split_experts(weights: dict[str, Tensor], config: dict[str, Any]) -> dict[str, Tensor]:
    """transformers keeps the experts of a layer in one tensor; the hub's files do not."""
    split = {}
    for key, value in weights.items():
        stem, _, last = key.rpartition(".")
        if not stem.endswith("experts") or last not in {"gate_up_proj", "down_proj"}:
            split[key] = value
            continue
        for e in range(config["num_experts"]):
            if last == "down_proj":
                split[f"{stem}.{e}.down_proj.weight"] = value[e]
            else:
                gate, up = value[e].chunk(2)
                split |= {f"{stem}.{e}.gate_proj.weight": gate, f"{stem}.{e}.up_proj.weight": up}
    return split


def talker(
    name: str,
    *,
    text: dict,
    nested: dict,
    sections: list[int],
    codes: int,
    size: int,
    shards: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
        Qwen3OmniMoeTalkerConfig,
    )
    from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
        Qwen3OmniMoeTalkerForConditionalGeneration,
    )

    stop = size + 6
    config = {
        "num_code_groups": codes,
        "codec_eos_token_id": stop,
        "accept_hidden_layer": 1,
        "thinker_hidden_size": 8,
        "spatial_merge_size": 2,
        "text_config": moe(text | {"vocab_size": size + SPECIAL_IDS}, sections),
        "code_predictor_config": {
            "vocab_size": size,
            "num_code_groups": codes,
            "rms_norm_eps": 1e-6,
            "hidden_act": "silu",
            "rope_theta": 10000,
            "max_position_embeddings": 512,
            "attention_bias": False,
            "sliding_window": None,
            "tie_word_embeddings": False,
        }
        | nested,
    }
    made = Qwen3OmniMoeTalkerConfig(**config)
    for part in (made, made.text_config, made.code_predictor_config):
        part._attn_implementation = part._experts_implementation = "eager"
    model = Qwen3OmniMoeTalkerForConditionalGeneration(made).float().eval()
    draw(model, seed)
    margins: list[float] = []
    cases = []
    for i, (prompt, trailing, frames) in enumerate(((10, 5, 20), (25, 2, 16))):
        case = recorded(text["hidden_size"], prompt, trailing, seed + i)
        where = (
            spatial(prompt, 2, 4) if i else torch.arange(prompt, dtype=torch.float32).repeat(3, 1)
        )
        predict = predictor(
            model.code_predictor.model,
            model.code_predictor.lm_head,
            model.code_predictor.model.codec_embedding,
            lambda rows: rows,
            margins,
        )
        case["codes"] = speak(
            lambda rows, where=where: model.model(
                inputs_embeds=rows[None], position_ids=extend(where, len(rows)), use_cache=False
            ).last_hidden_state[0],
            model.codec_head,
            model.model.codec_embedding,
            predict,
            case,
            stop,
            frames,
            margins,
            0,
        )
        cases.append(case | {"positions": where, "limit": frames})
    finish(name, margins, cases)
    weights = {f"talker.{k}": v for k, v in model.state_dict().items() if "_projection" not in k}
    save(
        name,
        {"talker_config": config},
        split_experts(weights, config["text_config"]),
        cases,
        shards,
        dtype,
    )


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "tts":
        tts(
            "tts-six-codes",
            codes=6,
            size=24,
            shards=1,
            dtype=torch.bfloat16,
            seed=1,
            talker={
                "hidden_size": 40,
                "num_hidden_layers": 3,
                "num_attention_heads": 6,
                "num_key_value_heads": 3,
                "head_dim": 12,
                "intermediate_size": 56,
                "rope_theta": 50000,
            },
            nested={
                "hidden_size": 28,
                "num_hidden_layers": 3,
                "num_attention_heads": 3,
                "num_key_value_heads": 1,
                "head_dim": 16,
                "intermediate_size": 40,
                "rope_theta": 10000,
            },
        )
        tts(
            "tts-two-codes-sharded",
            codes=2,
            size=48,
            shards=3,
            dtype=torch.float16,
            seed=2,
            talker={
                "hidden_size": 24,
                "num_hidden_layers": 4,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 20,
                "intermediate_size": 32,
                "rope_theta": 1000000,
            },
            nested={
                "hidden_size": 24,
                "num_hidden_layers": 1,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "intermediate_size": 48,
                "rope_theta": 1000000,
            },
        )
        return
    thinker(
        "thinker-tied",
        deepstack=3,
        accept=5,
        sections=[4, 3, 3],
        shards=2,
        dtype=torch.bfloat16,
        seed=3,
        text={
            "vocab_size": 96,
            "hidden_size": 36,
            "intermediate_size": 44,
            "moe_intermediate_size": 20,
            "num_hidden_layers": 5,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 20,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
        },
    )
    thinker(
        "thinker-mixed-layers",
        deepstack=1,
        accept=2,
        sections=[2, 1, 1],
        shards=1,
        dtype=torch.float32,
        seed=4,
        text={
            "vocab_size": 80,
            "hidden_size": 32,
            "intermediate_size": 40,
            "moe_intermediate_size": 16,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "num_experts": 5,
            "num_experts_per_tok": 1,
            "norm_topk_prob": False,
            "tie_word_embeddings": False,
            "mlp_only_layers": [1],
        },
    )
    talker(
        "talker-five-codes",
        codes=5,
        size=40,
        sections=[4, 2, 2],
        shards=1,
        dtype=torch.bfloat16,
        seed=5,
        text={
            "hidden_size": 32,
            "intermediate_size": 40,
            "moe_intermediate_size": 12,
            "shared_expert_intermediate_size": 20,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "num_experts": 7,
            "num_experts_per_tok": 2,
            "norm_topk_prob": False,
            "tie_word_embeddings": False,
        },
        nested={
            "hidden_size": 32,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 12,
        },
    )


if __name__ == "__main__":
    main()
