"""Prefill: rows of several requests in one step, each attending over its own pages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omni_host.engines.attention import causal_mask, grouped_attention
from omni_host.engines.decoder_stack import Inject
from omni_host.engines.torch_engine.kv_cache import KvCache
from omni_host.engines.torch_engine.tenant import Chunk

__all__ = ["PrefillAttention", "injections", "spans_of"]


class PrefillAttention:
    """The `attend` of chunks, one request after the other."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        spans: Sequence[slice],
        cache: KvCache,
        windows: Sequence[int | None],
        device: torch.device,
    ) -> None:
        self._spans = spans
        self._cache = cache
        self._windows = windows
        size = cache.page_size
        written = [_pool_rows(it.tenant.pages, it.start, it.stop, size) for it in chunks]
        self._written = torch.cat(written).to(device)
        self._pages = [
            torch.tensor(it.tenant.pages[: -(-it.stop // size)]).to(device)[None] for it in chunks
        ]
        self._ends = [it.stop for it in chunks]
        self._masks = [
            {
                window: causal_mask(it.start, it.stop - it.start, window, device)
                for window in set(windows)
            }
            for it in chunks
        ]

    def __call__(self, layer: int, queries: Tensor, keys_values: Tensor) -> Tensor:
        self._cache.write(layer, self._written, keys_values)
        attended: list[Tensor] = []
        for span, pages, end, masks in zip(
            self._spans, self._pages, self._ends, self._masks, strict=True
        ):
            kept = self._cache.read(layer, pages)[:, :end]
            mask = masks[self._windows[layer]]
            attended.append(grouped_attention(queries[None, span], kept, mask))
        return torch.cat(attended)


def spans_of(chunks: Sequence[Chunk]) -> list[slice]:
    """Where each chunk's rows stand in the step's."""
    spans: list[slice] = []
    start = 0
    for chunk in chunks:
        spans.append(slice(start, start + chunk.stop - chunk.start))
        start = spans[-1].stop
    return spans


def injections(chunks: Sequence[Chunk], spans: Sequence[slice]) -> list[Inject]:
    injected: list[Inject] = []
    for chunk, span in zip(chunks, spans, strict=True):
        for part in chunk.tenant.entry.prompt.inject:
            inside = (part.at >= chunk.start) & (part.at < chunk.stop)
            at = part.at[inside] - chunk.start + span.start
            injected.append(Inject(layer=part.layer, at=at, rows=part.rows[inside]))
    return injected


def _pool_rows(pages: Sequence[int], start: int, stop: int, page_size: int) -> Tensor:
    """Where rows `start` .. `stop` of a request stand in the cache, int64."""
    at = torch.arange(start, stop)
    return torch.tensor(pages)[at // page_size] * page_size + at % page_size
