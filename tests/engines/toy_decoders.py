"""Small decoders of many shapes with drawn weights, and a program to run them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from omni_host.engines import (
    Attention,
    DecodeRequest,
    DecoderSpec,
    DenseMlp,
    EngineBuild,
    FrameSpec,
    Head,
    Injection,
    MoeMlp,
    Projection,
    Prompt,
    Rope,
    SamplingPolicy,
    Signal,
    StepState,
    Table,
    TensorSource,
    WeightMap,
)

_PLAIN = ("embedding", "norm", "head")
_LAYER = (
    *("attention_norm", "mlp_norm", "q", "k", "v", "o", "q.bias", "k.bias", "v.bias", "o.bias"),
    *("q_norm", "k_norm", "gate", "up", "down", "router", "shared_gate"),
    *("shared.gate", "shared.up", "shared.down"),
    *(f"experts.{{expert}}.{name}" for name in ("gate", "up", "down")),
)
STOP = 5


def names(prefix: str) -> WeightMap:
    """Every weight under its canonical name, behind a prefix."""
    templates = (*_PLAIN, *(f"layers.{{layer}}.{name}" for name in _LAYER))
    return WeightMap(
        sources={name: TensorSource(name=f"{prefix}.{name}.weight") for name in templates}
    )


def decoder(**changes: Any) -> DecoderSpec:
    """A talker of two dense layers with scores over 40 tokens and no embedding."""
    spec = DecoderSpec(
        width=32,
        attention=Attention(heads=4, kv_heads=2, head_dim=16, qk_norm=True),
        rope=Rope(theta=1e4),
        mlps=(DenseMlp(intermediate=48),) * 2,
        weights=names("outer"),
        head=Head(vocabulary=40),
        max_positions=512,
    )
    return replace(spec, **changes)


def frame(*, width: int = 24, codes: int = 4, size: int = 32, outer: int = 32) -> FrameSpec:
    """A frame of codes; with a projection if the widths differ."""
    tables = [
        Table(source=TensorSource(name=f"codes.{code}.embedding"), size=size)
        for code in range(codes)
    ]
    nested = decoder(
        width=width,
        weights=names("nested"),
        head=None,
        frame_length=codes,
        attention=Attention(heads=3, kv_heads=1, head_dim=8),
    )
    projection = Projection(
        weight=TensorSource(name="projection.weight"), bias=TensorSource(name="projection.bias")
    )
    return FrameSpec(
        decoder=nested,
        codes=codes,
        inputs=tuple(tables[:-1]),
        heads=tuple(TensorSource(name=f"heads.{code}.weight") for code in range(1, codes)),
        feedback=tuple(tables),
        sampling=SamplingPolicy(temperature=0.9, top_k=12, top_p=0.95),
        first_code_size=size,
        projection=None if width == outer else projection,
    )


SAMPLING = SamplingPolicy(
    temperature=0.9, top_k=20, top_p=0.9, repetition_penalty=1.1, stop=(STOP,), min_tokens=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """Two specs and the outer policy."""

    decoder: DecoderSpec
    frame: FrameSpec | None = None
    sampling: SamplingPolicy = SAMPLING


TOYS: Mapping[str, Toy] = {
    "dense text": Toy(decoder=decoder(vocabulary=40)),
    "tied head": Toy(
        decoder=decoder(
            vocabulary=48,
            head=Head(vocabulary=48, tied=True),
            rope=Rope(theta=1e4, layout="interleaved", table_dtype="bfloat16"),
        ),
        sampling=SamplingPolicy(
            top_k=30, top_p=0.9, allowed=((STOP, STOP + 1), (8, 48)), stop=(STOP,)
        ),
    ),
    "experts": Toy(
        decoder=decoder(
            vocabulary=40,
            mlps=(
                MoeMlp(experts=4, top_k=2, intermediate=24),
                MoeMlp(
                    experts=6,
                    top_k=3,
                    intermediate=16,
                    renormalise=False,
                    shared_intermediate=20,
                    shared_gate=True,
                ),
            ),
        )
    ),
    "three positions": Toy(
        decoder=decoder(
            vocabulary=40,
            rope=Rope(theta=1e4, sections=(4, 2, 2), sections_interleaved=True, fractional=True),
            mlps=(DenseMlp(intermediate=48),) * 3,
            inject_after=(0, 1),
            capture=(0, 2, -1),
        )
    ),
    "sliding window": Toy(
        decoder=decoder(
            vocabulary=40,
            attention=Attention(
                heads=2, kv_heads=2, head_dim=16, qkv_bias=True, out_bias=True, windows=(None, 9)
            ),
        )
    ),
    "frames": Toy(decoder=decoder(), frame=frame()),
    "frames without projection": Toy(decoder=decoder(), frame=frame(width=32, codes=3)),
}


@dataclass(slots=True)
class ToyProgram:
    """Prompts by request; rows drawn from the request's name and the frame count.

    With `starved`, every second answer to a frame is WAIT first.
    """

    toy: Toy
    starved: bool = False
    asked: dict[tuple[str, int], int] = field(default_factory=dict)

    def prompt(self, request: Any) -> Prompt:
        return request["prompt"]

    def next_row(self, state: StepState) -> torch.Tensor | Signal | None:
        name = state.request["name"]
        times = self.asked[name, state.frames] = self.asked.get((name, state.frames), 0) + 1
        if self.starved and times < 1 + (state.frames % 3):
            return Signal.WAIT
        if state.frames == state.request.get("end"):
            return Signal.END
        if state.frames % 4 == 3:
            return None
        return drawn(f"{name} {state.frames}", self.toy.decoder.width)


def drawn(label: str, *shape: int) -> torch.Tensor:
    """Rows that depend on nothing but the label."""
    generator = torch.Generator().manual_seed(zlib.crc32(label.encode()))
    return torch.randn(*shape, generator=generator)


def prompt(toy: Toy, content: str, rows: int) -> Prompt:
    """A prompt whose first half is the same for equal words before a slash in `content`."""
    width, spec = toy.decoder.width, toy.decoder
    shared, _, own = content.partition("/")
    labels = [
        f"{shared} {row}" if row < rows // 2 else f"{shared}/{own} {row}" for row in range(rows)
    ]
    made = Prompt(
        rows=torch.stack([drawn(label, width) for label in labels]),
        keys=[zlib.crc32(label.encode()) for label in labels],
    )
    if spec.rope.sections:
        steps = torch.arange(rows) * torch.tensor([[0.5], [1.0], [2.0]])
        made = replace(made, positions=steps, next_position=float(rows) + 0.25)
    if spec.inject_after:
        at = torch.arange(1, rows, 3)
        injections = [
            Injection(
                layer=layer,
                at=at,
                rows=torch.stack([drawn(f"{labels[i]} {layer}", width) for i in at]),
            )
            for layer in spec.inject_after
        ]
        made = replace(made, inject=tuple(injections))
    if spec.capture:
        made = replace(made, wanted=torch.tensor([2, rows // 2, rows - 1]))
    return made


def request(
    toy: Toy, name: str, *, rows: int = 20, frames: int = 12, content: str = "", **changes: Any
) -> DecodeRequest:
    """A request whose seed follows from its name."""
    changes = {"seed": zlib.crc32(name.encode()), "sampling": toy.sampling, **changes}
    return DecodeRequest(
        id=name,
        request={
            "name": name,
            "prompt": prompt(toy, content or name, rows),
            "end": changes.pop("end", None),
        },
        max_frames=frames,
        **changes,
    )


def build(toy: Toy, program: Any, **server_args: Any) -> EngineBuild:
    """Drawn weights, no file."""
    return EngineBuild(
        decoder=toy.decoder,
        frame=toy.frame,
        sampling=toy.sampling,
        program=program,
        weights="",
        server_args={"load_format": "dummy", **server_args},
    )
