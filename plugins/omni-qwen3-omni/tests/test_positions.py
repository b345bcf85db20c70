"""Positions of pictures and videos against those the reference computed."""

from __future__ import annotations

import numpy as np
import pytest
from omni_qwen3_omni.positions import Grid, positions

from tests.parity import goldens

CASES = [
    pytest.param(case, role, id=f"{case.name} {role}")
    for case in goldens.cases("qwen3-omni")
    for role in ("thinker", "talker")
    if f"mid.0.{role}_position_ids" in case.arrays() and not case.request.get("use_audio_in_video")
]


@pytest.mark.skipif(not CASES, reason="the whole set of goldens is not here")
@pytest.mark.parametrize(("case", "role"), CASES)
def test_positions_follow_the_reference(case: goldens.Case, role: str) -> None:
    arrays = case.arrays()
    ids = arrays["mid.0.prompt_ids" if role == "thinker" else "mid.0.talker_input_ids"]
    pictures = [
        Grid(time=t, height=h, width=w)
        for t, h, w in arrays.get("mid.0.image_grid_thw", np.empty((0, 3), int)).tolist()
    ]
    videos = [
        Grid(time=t, height=h, width=w, seconds=float(seconds))
        for (t, h, w), seconds in zip(
            arrays["mid.0.video_grid_thw"].tolist(),
            arrays["mid.0.video_second_per_grid"],
            strict=True,
        )
    ]
    config = case.config()[f"{role}_config"]
    computed = positions(ids.tolist(), config, iter(pictures), iter(videos))
    np.testing.assert_array_equal(computed, arrays[f"mid.0.{role}_position_ids"])
