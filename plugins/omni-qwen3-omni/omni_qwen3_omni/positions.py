"""Positions of a Qwen3-Omni sequence: time, height and width of every token.

Text and audio tokens count up in all three rows. A picture's tokens share the time of
their temporal patch and have their row and column after the 2 x 2 merge; a video's time
steps follow its frame rate and stay fractional. What follows a picture or video starts
one after the largest position used (`get_rope_index` in transformers' `qwen3_omni_moe`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Grid", "positions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A picture or video: patches in time, height and width, and seconds a temporal patch.

    A picture's temporal patches are one second apart.
    """

    time: int
    height: int
    width: int
    seconds: float = 1.0


def _block(grid: Grid, start: float, merge: int, per_second: float) -> np.ndarray:
    height, width = grid.height // merge, grid.width // merge
    t, h, w = np.meshgrid(
        np.arange(grid.time) * grid.seconds * per_second,
        np.arange(height),
        np.arange(width),
        indexing="ij",
    )
    return np.stack([t.ravel(), h.ravel(), w.ravel()]).astype(np.float32) + start


def positions(
    ids: Sequence[int], config: Mapping[str, Any], pictures: Iterator[Grid], videos: Iterator[Grid]
) -> np.ndarray:
    """float32 [3, L] for `ids` [L], of sequences in which no audio is merged into a video.

    Args:
        config: `thinker_config` or `talker_config`, for the ids of the pads.
        pictures, videos: the grids in order of appearance.
    """
    merge = config.get("spatial_merge_size") or config["vision_config"]["spatial_merge_size"]
    per_second = config["position_id_per_seconds"]
    grids = {config["image_token_id"]: pictures, config["video_token_id"]: videos}
    parts: list[np.ndarray] = []
    start, i = 0.0, 0
    while i < len(ids):
        if ids[i] in grids:
            part = _block(next(grids[ids[i]]), start, merge, per_second)
        else:
            part = np.full((3, 1), start, dtype=np.float32)
        parts.append(part)
        start = float(part.max()) + 1
        i += part.shape[1]
    return np.concatenate(parts, axis=1)
