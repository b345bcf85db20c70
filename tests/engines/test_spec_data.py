"""Specs survive being written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omni_host.engines import DecoderSpec, FrameSpec, Resample, SamplingPolicy
from omni_host.engines.spec_data import from_data, to_data
from omni_host.errors import ConfigError

pytest.importorskip("torch")

from tests.engines.toy_decoders import TOYS

SPECS: list[Any] = [
    *(toy.decoder for toy in TOYS.values()),
    *(toy.frame for toy in TOYS.values() if toy.frame),
    *(toy.sampling for toy in TOYS.values()),
    SamplingPolicy(
        order=("top_p", "top_k", "temperature"),
        resample=Resample(window=10, temperature=1.0, top_p=0.9),
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_a_spec_comes_back_from_json_as_it_was(spec: Any) -> None:
    written = json.dumps(to_data(spec))
    assert from_data(type(spec), json.loads(written)) == spec


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        (DecoderSpec, {"widht": 3}, "DecoderSpec"),
        (DecoderSpec, {"width": "3"}, "DecoderSpec.width"),
        (DecoderSpec, {"mlps": [{"kind": "Conv"}]}, "DecoderSpec.mlps[0]"),
        (DecoderSpec, {"kind": "FrameSpec"}, "DecoderSpec"),
        (
            DecoderSpec,
            {"attention": {"kind": "Attention", "heads": 4}},
            "DecoderSpec.attention.kv_heads",
        ),
        (FrameSpec, {"feedback": 3}, "FrameSpec.feedback"),
        (SamplingPolicy, {"order": ["top_k", "top_k"]}, "SamplingPolicy.order"),
        (SamplingPolicy, {"top_p_rule": "other"}, "SamplingPolicy.top_p_rule"),
    ],
)
def test_what_is_wrong_is_named(kind: type, change: dict[str, Any], field: str) -> None:
    data = to_data(next(spec for spec in SPECS if isinstance(spec, kind)))
    with pytest.raises(ConfigError) as refused:
        from_data(kind, data | change)
    assert refused.value.field == field
