"""Captured states of prompt rows, kept where the rows' keys and values are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from omni_host.engines.sglang_engine.worker import Worker

__all__ = ["CapturedStates"]


class CapturedStates:
    """A row of captured states beside each row of the KV pool.

    A cached prefix so brings its states along. The memory, `captures` * width values for
    each row of the pool, is taken when the first request wants states; rows that were
    cached before have none and are computed again by whoever wants theirs.
    """

    def __init__(self, worker: Worker, columns: Mapping[int, slice]) -> None:
        """`columns` says where each captured layer stands in the worker's states."""
        self._worker = worker
        self._columns = columns
        self._pool: dict[int, Tensor] = {}
        self._there: Tensor | None = None

    def wanted(self) -> None:
        """Somebody wants states: keep those of all prompt rows from now on."""
        if self._there is None and self._columns:
            worker = self._worker
            rows, like = worker.rows + worker.page + 1, worker.model.decode_rows
            width = like.shape[1]
            self._pool = {layer: like.new_empty(rows, width) for layer in self._columns}
            self._there = torch.zeros(rows, dtype=torch.bool, device=like.device)

    def keep(self, locations: Tensor, states: Tensor) -> None:
        """Keep states [n, ...] of rows whose keys and values stand at `locations` [n]."""
        if self._there is None:
            return
        for layer, columns in self._columns.items():
            self._pool[layer][locations] = states[:, columns]
        self._there[locations] = True

    def first_missing(self, locations: Tensor, wanted: Sequence[int]) -> int | None:
        """The first wanted row of a cached prefix at `locations` whose states are not kept."""
        rows = sorted(row for row in wanted if row < len(locations))
        if not rows or not self._columns:
            return None
        if self._there is None:
            return rows[0]
        there: list[bool] = cast("Any", self._there[locations[rows]]).tolist()
        return next((row for row, kept in zip(rows, there, strict=True) if not kept), None)

    def take(self, locations: Tensor) -> dict[int, Tensor]:
        """Layer -> [n, width], the states kept at `locations` [n]."""
        return {layer: pool[locations] for layer, pool in self._pool.items()}
