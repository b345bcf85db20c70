"""Decoders fed from the recorded inputs of the goldens, without any front end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omni_fish_s2 import decoders as fish
from omni_qwen3_omni import decoders as omni
from omni_qwen3_omni.positions import Grid, positions
from omni_qwen3_tts import decoders as tts
from safetensors import safe_open

from omni_host.engines import (
    DecodeRequest,
    DecoderSpec,
    EngineBuild,
    FrameSpec,
    Injection,
    Prompt,
    SamplingPolicy,
    Signal,
    StepState,
)
from tests.parity.goldens import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request as recorded: its prompt, the rows added later, and what must come out."""

    name: str
    prompt: Prompt
    trailing: torch.Tensor | None
    pad: torch.Tensor | None
    max_frames: int
    expected: np.ndarray
    stopped: bool


@dataclass(slots=True, kw_only=True)
class RecordedProgram:
    """Replays recorded rows; `starved` makes a row come late now and then."""

    starved: bool = False
    late: dict[tuple[str, int], int] = field(default_factory=dict)

    def prompt(self, request: Recorded) -> Prompt:
        return request.prompt

    def next_row(self, state: StepState) -> torch.Tensor | Signal | None:
        recorded: Recorded = state.request
        if self.starved and self._is_late(recorded.name, state.frames):
            return Signal.WAIT
        if recorded.trailing is None:
            return None
        k = state.frames - 1
        return recorded.trailing[k] if k < len(recorded.trailing) else recorded.pad

    def _is_late(self, name: str, frames: int) -> bool:
        wanted = int(hashlib.sha256(f"{name}/{frames}".encode()).hexdigest(), 16) % 4
        asked = self.late.setdefault((name, frames), 0)
        self.late[name, frames] = asked + 1
        return asked < wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """A decoder of a checkpoint with every request the goldens have for it."""

    name: str
    checkpoint: Path
    decoder: DecoderSpec
    frame: FrameSpec | None
    sampling: SamplingPolicy
    requests: tuple[Recorded, ...]

    def build(self, program: RecordedProgram, **server_args: Any) -> EngineBuild:
        return EngineBuild(
            decoder=self.decoder,
            frame=self.frame,
            sampling=self.sampling,
            program=program,
            weights=str(self.checkpoint),
            server_args=server_args,
        )

    def request(self, recorded: Recorded, name: str | None = None) -> DecodeRequest:
        return DecodeRequest(
            id=name or recorded.name,
            request=recorded,
            sampling=replace(self.sampling, temperature=0.0),
            residual_sampling=replace(self.frame.sampling, temperature=0.0) if self.frame else None,
            max_frames=recorded.max_frames,
        )


def row_keys(rows: torch.Tensor, *more: torch.Tensor) -> list[int]:
    """A content key for each row: a hash of its values and of what is injected there."""
    stacked = torch.cat([rows, *more], dim=1).numpy()
    return [
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=7).digest(), "big")
        for row in stacked
    ]


def tensor(checkpoint: Path, name: str) -> torch.Tensor:
    """One tensor of a checkpoint, in float32."""
    index = checkpoint / "model.safetensors.index.json"
    shard = "model.safetensors"
    if index.exists():
        shard = json.loads(index.read_text())["weight_map"][name]
    with safe_open(checkpoint / shard, framework="pt") as file:
        return file.get_tensor(name).float()


def _stopped(frames: int, limit: int) -> bool:
    return frames < limit


def _talking(case: Case, arrays: dict[str, np.ndarray], i: int, pad: np.ndarray) -> Recorded:
    rows = torch.from_numpy(arrays[f"mid.{i}.talker_inputs_embeds"])
    generation = case.request["generation"]
    limit = (generation.get("max_new_tokens") or generation.get("talker_max_new_tokens")) - 1
    expected = arrays[f"out.{i}.codes"]
    return Recorded(
        name=f"{case.name}.{i}",
        prompt=Prompt(rows=rows, keys=row_keys(rows)),
        trailing=torch.from_numpy(arrays[f"mid.{i}.trailing_text_hidden"]),
        pad=torch.from_numpy(pad).reshape(-1),
        max_frames=limit,
        expected=expected,
        stopped=_stopped(len(expected), limit),
    )


def qwen3_tts_talker(checkpoint: str, cases: list[Case]) -> Decoding:
    mine = [case for case in cases if case.request["checkpoint"] == checkpoint]
    config = mine[0].config()
    requests = []
    for case in mine:
        arrays = case.arrays()
        pad = arrays["mid.tts_pad_embed"]
        requests += [_talking(case, arrays, i, pad) for i in range(case.items)]
    return Decoding(
        name=f"{checkpoint} talker",
        checkpoint=mine[0].checkpoint,
        decoder=tts.talker(config),
        frame=tts.frame(config),
        sampling=tts.talker_sampling(config),
        requests=tuple(requests),
    )


def _grids(arrays: dict[str, np.ndarray], i: int) -> list[Grid]:
    rows = arrays.get(f"mid.{i}.image_grid_thw", arrays.get(f"in.{i}.image_grid_thw", ()))
    return [Grid(time=int(t), height=int(h), width=int(w)) for t, h, w in rows]


def _omni_positions(
    arrays: dict[str, np.ndarray], i: int, role: str, ids: np.ndarray, config: dict[str, Any]
) -> np.ndarray:
    recorded = arrays.get(f"mid.{i}.{role}_position_ids")
    if recorded is not None:
        return recorded.astype(np.float32)
    return positions(ids.tolist(), config, iter(_grids(arrays, i)), iter(()))


def omni_talker(cases: list[Case]) -> Decoding:
    config = cases[0].config()
    requests = []
    for case in cases:
        arrays = case.arrays()
        for i in range(case.items):
            if f"out.{i}.codes" not in arrays:
                continue
            recorded = _talking(case, arrays, i, arrays[f"mid.{i}.tts_pad_embed"])
            where = _omni_positions(
                arrays, i, "talker", arrays[f"mid.{i}.talker_input_ids"], config["talker_config"]
            )
            prompt = replace(recorded.prompt, positions=torch.from_numpy(where))
            requests.append(replace(recorded, prompt=prompt))
    return Decoding(
        name="qwen3-omni talker",
        checkpoint=cases[0].checkpoint,
        decoder=omni.talker(config),
        frame=omni.frame(config),
        sampling=omni.talker_sampling(config),
        requests=tuple(requests),
    )


def _merged(
    rows: torch.Tensor, ids: np.ndarray, arrays: dict[str, np.ndarray], i: int, config: dict
) -> torch.Tensor:
    for kind, pad in (("audio", "audio"), ("image", "image"), ("video", "video")):
        embeds = arrays.get(f"mid.{i}.{kind}_embeds")
        if embeds is not None:
            rows[torch.from_numpy(ids == config[f"{pad}_token_id"])] = torch.from_numpy(embeds)
    return rows


def _deepstack(
    ids: np.ndarray, arrays: dict[str, np.ndarray], i: int, config: dict, layers: tuple[int, ...]
) -> tuple[Injection, ...]:
    pads = {"": config["image_token_id"], "video_": config["video_token_id"]}
    found = []
    for layer in layers:
        for kind, pad in pads.items():
            rows = arrays.get(f"mid.{i}.{kind}deepstack_{layer}")
            if rows is not None:
                at = torch.from_numpy(np.flatnonzero(ids == pad))
                found.append(Injection(layer=layer, at=at, rows=torch.from_numpy(rows)))
    return tuple(found)


def omni_thinker(cases: list[Case]) -> Decoding:
    config = cases[0].config()
    mine = config["thinker_config"]
    spec = omni.thinker(config)
    table = tensor(cases[0].checkpoint, "thinker.model.embed_tokens.weight")
    (stop,) = (config["im_end_token_id"],)
    requests = []
    for case in cases:
        arrays = case.arrays()
        for i in range(case.items):
            ids = arrays[f"mid.{i}.prompt_ids"]
            rows = _merged(table[torch.from_numpy(ids)].clone(), ids, arrays, i, mine)
            inject = _deepstack(ids, arrays, i, mine, spec.inject_after)
            where = _omni_positions(arrays, i, "thinker", ids, mine)
            limit = case.request["generation"]["thinker_max_new_tokens"]
            expected = arrays[f"out.{i}.text_ids"]
            stopped = int(expected[-1]) == stop
            requests.append(
                Recorded(
                    name=f"{case.name}.{i}",
                    prompt=Prompt(
                        rows=rows,
                        keys=row_keys(rows, *_spread(inject, rows)),
                        positions=torch.from_numpy(where),
                        inject=inject,
                        wanted=torch.arange(0, len(rows), 3),
                    ),
                    trailing=None,
                    pad=None,
                    max_frames=limit,
                    expected=(expected[:-1] if stopped else expected)[:, None],
                    stopped=stopped,
                )
            )
    return Decoding(
        name="qwen3-omni thinker",
        checkpoint=cases[0].checkpoint,
        decoder=spec,
        frame=None,
        sampling=omni.thinker_sampling((stop,)),
        requests=tuple(requests),
    )


def _spread(inject: tuple[Injection, ...], rows: torch.Tensor) -> list[torch.Tensor]:
    """What is injected, laid out over all rows, so that it counts for their keys."""
    spread = []
    for one in inject:
        laid = torch.zeros_like(rows)
        laid[one.at] = one.rows
        spread.append(laid)
    return spread


def fish_slow(checkpoint: str, cases: list[Case]) -> Decoding:
    mine = [case for case in cases if case.request["checkpoint"] == checkpoint]
    config = mine[0].config()
    text = tensor(mine[0].checkpoint, "text_model.model.embeddings.weight")
    codebooks = tensor(mine[0].checkpoint, "audio_decoder.codebook_embeddings.weight")
    frame = fish.frame(config)
    first, last = config["semantic_start_token_id"], config["semantic_end_token_id"]
    offsets = torch.tensor([table.offset for table in frame.feedback if table])
    requests = []
    for case in mine:
        arrays = case.arrays()
        limit = case.request["generation"]["max_new_tokens"] - 1
        for i in range(case.items):
            ids = torch.from_numpy(arrays[f"mid.{i}.prompt_ids"])
            codes = torch.from_numpy(arrays[f"mid.{i}.prompt_codes"])
            spoken = (text[ids] + codebooks[codes + offsets].sum(1)) * frame.feedback_scale
            semantic = ((ids >= first) & (ids <= last))[:, None]
            rows = torch.where(semantic, spoken, text[ids])
            expected = arrays[f"out.{i}.codes"]
            requests.append(
                Recorded(
                    name=f"{case.name}.{i}",
                    prompt=Prompt(rows=rows, keys=row_keys(rows)),
                    trailing=None,
                    pad=None,
                    max_frames=limit,
                    expected=expected,
                    stopped=_stopped(len(expected), limit),
                )
            )
    return Decoding(
        name=f"{checkpoint} slow",
        checkpoint=mine[0].checkpoint,
        decoder=fish.slow(config),
        frame=frame,
        sampling=fish.slow_sampling(config),
        requests=tuple(requests),
    )


def decodings(speaking: Callable[[str], list[Case]]) -> list[Decoding]:
    """Every decoder of the goldens with its requests."""
    made = []
    for family, per_checkpoint in (("qwen3-tts", qwen3_tts_talker), ("fish-s2", fish_slow)):
        cases = speaking(family)
        checkpoints = dict.fromkeys(case.request["checkpoint"] for case in cases)
        made += [per_checkpoint(checkpoint, cases) for checkpoint in checkpoints]
    if cases := speaking("qwen3-omni"):
        made += [omni_thinker(cases), omni_talker(cases)]
    return made


def _shape_request(name: str, arrays: dict[str, np.ndarray], spec: DecoderSpec) -> Recorded:
    rows = torch.from_numpy(arrays["rows"])
    inject = tuple(
        Injection(
            layer=layer,
            at=torch.from_numpy(arrays["inject_at"]),
            rows=torch.from_numpy(arrays[f"inject_{layer}"]),
        )
        for layer in spec.inject_after
        if "inject_at" in arrays
    )
    where = torch.from_numpy(arrays["positions"]) if "positions" in arrays else None
    expected = arrays["codes"] if "codes" in arrays else arrays["text_ids"][:, None]
    limit = int(arrays["limit"])
    return Recorded(
        name=name,
        prompt=Prompt(
            rows=rows,
            keys=row_keys(rows, *_spread(inject, rows)),
            positions=where,
            inject=inject,
        ),
        trailing=torch.from_numpy(arrays["trailing"]) if "trailing" in arrays else None,
        pad=torch.from_numpy(arrays["pad"]) if "pad" in arrays else None,
        max_frames=limit,
        expected=expected,
        stopped=len(expected) < limit,
    )


def shape(folder: Path) -> Decoding:
    """One of the decoders that `recipes/shapes.py` made."""
    config = json.loads((folder / "config.json").read_text())
    frame: FrameSpec | None = None
    if folder.name.startswith("tts"):
        decoder, frame = tts.talker(config), tts.frame(config)
        sampling = tts.talker_sampling(config)
    elif folder.name.startswith("talker"):
        decoder, frame = omni.talker(config), omni.frame(config)
        sampling = omni.talker_sampling(config)
    else:
        decoder = omni.thinker(config)
        sampling = omni.thinker_sampling((config["im_end_token_id"],))
    by_request: dict[str, dict[str, np.ndarray]] = {}
    with np.load(folder / "cases.npz", allow_pickle=False) as archive:
        for key in archive.files:
            i, _, field_name = key.partition(".")
            by_request.setdefault(i, {})[field_name] = archive[key]
    return Decoding(
        name=folder.name,
        checkpoint=folder,
        decoder=decoder,
        frame=frame,
        sampling=sampling,
        requests=tuple(
            _shape_request(f"{folder.name}.{i}", arrays, decoder)
            for i, arrays in by_request.items()
        ),
    )
