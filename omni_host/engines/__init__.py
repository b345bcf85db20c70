"""Autoregressive engines: the contract every engine serves and every family writes to."""

from omni_host.engines.decoder import (
    Attention,
    DecoderSpec,
    DenseMlp,
    Head,
    MoeMlp,
    Rope,
    TensorSource,
    WeightMap,
)
from omni_host.engines.engine import (
    CacheUse,
    DecodeRequest,
    Engine,
    EngineBuild,
    Runaway,
    StepOutput,
)
from omni_host.engines.frame import FrameSpec, Projection, Table
from omni_host.engines.program import Injection, Program, Prompt, Signal, StepState
from omni_host.engines.sampling import Resample, SamplingPolicy

__all__ = [
    "Attention",
    "CacheUse",
    "DecodeRequest",
    "DecoderSpec",
    "DenseMlp",
    "Engine",
    "EngineBuild",
    "FrameSpec",
    "Head",
    "Injection",
    "MoeMlp",
    "Program",
    "Projection",
    "Prompt",
    "Resample",
    "Rope",
    "Runaway",
    "SamplingPolicy",
    "Signal",
    "StepOutput",
    "StepState",
    "Table",
    "TensorSource",
    "WeightMap",
]
