"""Grouped-query attention over keys and values that lie side by side."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["causal_mask", "grouped_attention"]


def grouped_attention(queries: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of n new rows over S kept ones, for each of B sequences.

    Args:
        queries: [B, n, heads, head_dim].
        keys_values: [B, S, 2 * kv_heads, head_dim], the keys first.
        mask: bool [B or 1, n, S], True where a query sees a key; None sees all.

    Returns: [B * n, heads * head_dim].

    The heads of a group are laid out as further queries of their key head, so keys and
    values are never repeated.
    """
    batch, new, heads, width = queries.shape
    kv_heads = keys_values.shape[2] // 2
    group = heads // kv_heads
    keys = keys_values[:, :, :kv_heads].transpose(1, 2)
    values = keys_values[:, :, kv_heads:].transpose(1, 2)
    grouped = queries.view(batch, new, kv_heads, group, width).permute(0, 2, 1, 3, 4)
    grouped = grouped.reshape(batch, kv_heads, new * group, width)
    if mask is not None and new > 1:
        mask = mask.repeat_interleave(group, dim=1)
    attended = functional.scaled_dot_product_attention(
        grouped, keys, values, attn_mask=None if mask is None else mask[:, None]
    )
    attended = attended.view(batch, kv_heads, new, group, width).permute(0, 2, 1, 3, 4)
    return attended.reshape(batch * new, heads * width)


def causal_mask(first: int, new: int, window: int | None, device: torch.device) -> Tensor:
    """Which of the rows 0 .. first + new - 1 each of the last `new` sees: bool [1, new, S].

    `window` is how many rows a query sees at most, itself included.
    """
    queries = torch.arange(first, first + new, device=device)[:, None]
    keys = torch.arange(first + new, device=device)[None]
    seen = keys <= queries
    if window is not None:
        seen &= keys > queries - window
    return seen[None]
