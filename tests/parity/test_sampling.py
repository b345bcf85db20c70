"""The processing of scores against what the references recorded, in each family's order."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from omni_fish_s2 import decoders as fish
from omni_qwen3_omni import decoders as omni
from omni_qwen3_tts import decoders as tts

from omni_host.engines.sampler import CutNumbers, cut, plan_for
from omni_host.engines.sampling import SamplingPolicy
from omni_host.engines.token_sampler import TokenSampler
from tests.parity import goldens

FAMILIES = {
    "qwen3-tts": (tts.talker_sampling, tts.residual_sampling),
    "qwen3-omni": (omni.talker_sampling, omni.residual_sampling),
    "fish-s2": (fish.slow_sampling, fish.residual_sampling),
}
TIGHTER = {
    ("qwen3-tts", "_b"): ({"temperature": 0.7, "top_k": 8, "top_p": 0.8}, {"top_p": 0.9}),
    ("qwen3-omni", "_b"): ({"temperature": 0.7, "top_k": 8, "top_p": 0.8}, {"top_p": 0.9}),
    ("fish-s2", "_b"): ({"temperature": 0.7, "top_k": 30, "top_p": 0.99}, {}),
    ("fish-s2", "_c"): ({"temperature": 0.7, "top_k": 3, "top_p": 0.999}, {}),
}
VARIANTS = [*((family, "") for family in FAMILIES), *TIGHTER]


def policies(family: str, variant: str, config: dict) -> tuple[SamplingPolicy, SamplingPolicy]:
    first, residual = FAMILIES[family]
    if not variant:
        return first(config), residual()
    numbers, other = TIGHTER[family, variant]
    return replace(first(config), **numbers), replace(residual(), **(numbers | other))


def recorded(family: str) -> goldens.Case:
    (case,) = (case for case in goldens.cases(family) if case.name == "logits_processing")
    return case


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_scores_of_the_first_code_are_processed_as_recorded(family: str, variant: str) -> None:
    case = recorded(family)
    arrays, config = case.arrays(), case.config()
    policy, _ = policies(family, variant, config)
    raw = torch.from_numpy(arrays["mid.0.logits_raw"])
    expected = torch.from_numpy(arrays[f"mid.0.logits_processed{variant}"])
    offset = config.get("semantic_start_token_id", 0)
    history = (arrays["out.0.codes"][:, 0] + offset).tolist()
    frames = torch.arange(len(raw))
    sampler = TokenSampler(policy, raw.shape[1], len(raw), "cpu")
    for t in range(len(raw)):
        sampler.admit(
            t,
            policy,
            seed=0,
            min_tokens=0,
            ignore_stop=False,
            history=(),
            tokens=history[:t],
        )
    allowed = sampler.candidates
    processed = sampler.processed(raw[:, allowed], frames, frames, plan_for([policy]))
    torch.testing.assert_close(processed, expected[:, allowed], rtol=1e-5, atol=1e-5)
    barred = torch.ones(raw.shape[1], dtype=torch.bool)
    barred[allowed] = False
    assert torch.isneginf(expected[:, barred]).all()


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_scores_of_the_other_codes_are_processed_as_recorded(family: str, variant: str) -> None:
    case = recorded(family)
    arrays = case.arrays()
    _, policy = policies(family, variant, case.config())
    raw = torch.from_numpy(arrays["mid.0.residual_logits_raw"]).flatten(0, 1)
    expected = torch.from_numpy(arrays[f"mid.0.residual_logits_processed{variant}"]).flatten(0, 1)
    numbers = CutNumbers.empty(len(raw), "cpu")
    for row in range(len(raw)):
        numbers.put(row, policy)
    processed = cut(raw, numbers, policy, plan_for([policy]))
    torch.testing.assert_close(processed, expected, rtol=1e-5, atol=1e-5)
