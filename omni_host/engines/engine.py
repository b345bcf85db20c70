"""What every engine can do: requests in, steps, frames out.

An engine is driven by whoever owns it: `submit` and `cancel` between steps, `step` for
one prefill or one decode step over everything that can run. It has no thread of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from omni_host.engines.decoder import DecoderSpec
from omni_host.engines.frame import FrameSpec
from omni_host.engines.program import Program
from omni_host.engines.sampling import SamplingPolicy
from omni_host.errors import OmniError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CacheUse",
    "DecodeRequest",
    "Engine",
    "EngineBuild",
    "FinishReason",
    "Runaway",
    "StepOutput",
]

FinishReason = Literal["stop", "length", "end", "runaway", "failed"]
"""`stop`: a stop id; `length`: max_frames; `end`: the program said so; `runaway`: the guard;
`failed`: the program raised, which ends this request alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runaway:
    """Ends a request that repeats itself: the last `period` * `repeats` frames are `repeats`
    times the same, for any period up to `max_period` frames."""

    max_period: int = 4
    repeats: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """One request to an engine.

    Attributes:
        id: unique among the requests inside the engine.
        request: handed to the program as it is.
        sampling: the outer policy; its structure must be the engine's.
        residual_sampling: the nested frame's policy, None for the spec's own.
        seed: of every draw; equal seeds give equal draws.
        max_frames: at most this many frames (tokens) are produced.
        min_frames: stop ids are barred before.
        ignore_stop: stop ids are barred throughout.
        runaway: a guard against loops, or None.
        want_decode_states: return captured states of generated rows too.
    """

    id: str
    request: Any
    sampling: SamplingPolicy
    max_frames: int
    residual_sampling: SamplingPolicy | None = None
    seed: int = 0
    min_frames: int = 0
    ignore_stop: bool = False
    runaway: Runaway | None = None
    want_decode_states: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """What a step did for one request.

    Attributes:
        id: the request.
        codes: the frame produced [Q] (without a nested frame: the token alone), or None.
        finished: why it ended, or None.
        error: what the program raised, with `failed`.
        prompt_states: layer -> [n, width], the wanted prompt rows' states, once, with the
            step that completes the prefill.
        decode_state: layer -> [width], of the generated row fed in this step.
        reused_rows: prompt rows that came from the prefix cache, once.
    """

    id: str
    codes: tuple[int, ...] | None = None
    finished: FinishReason | None = None
    error: OmniError | None = None
    prompt_states: Mapping[int, Tensor] = field(default_factory=dict[int, "Tensor"])
    decode_state: Mapping[int, Tensor] = field(default_factory=dict[int, "Tensor"])
    reused_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """KV accounting, in rows: `free` + `cached` + `active` = `total`.

    `cached` rows are held by the prefix cache alone.
    """

    total: int
    free: int
    cached: int
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBuild:
    """What an engine is built from.

    Attributes:
        decoder, frame: the specs.
        sampling: the outer policy whose structure all requests share.
        program: the family's functions.
        weights: the folder with safetensors (one file or shards with an index).
        device, dtype: in torch's spelling, `cpu`, `float32`.
        server_args: the engine's own arguments, checked against what it knows; an unknown
            key is an error that names it.
    """

    decoder: DecoderSpec
    frame: FrameSpec | None
    sampling: SamplingPolicy
    program: Program
    weights: str
    device: str = "cpu"
    dtype: str = "float32"
    server_args: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Engine(Protocol):
    """`EngineSpec.target` is called with an `EngineBuild` and gives one of these."""

    def submit(self, request: DecodeRequest) -> None:
        """Queue a request. Raises InvalidRequestError if it can never fit."""
        ...

    def cancel(self, request_id: str) -> bool:
        """Free what the request holds, between steps; False if it is not inside.

        No `StepOutput` of it follows.
        """
        ...

    def step(self) -> Sequence[StepOutput]:
        """One prefill or one decode step, never both in one.

        Returns nothing if every request inside waits for rows.
        """
        ...

    @property
    def inside(self) -> int:
        """How many requests are queued, running or waiting."""
        ...

    def cache_use(self) -> CacheUse: ...

    def close(self) -> None: ...
