"""Keys and values of every row, in pages."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from omni_host.engines.decoder import DecoderSpec
from omni_host.engines.torch_engine.arguments import TorchArguments
from omni_host.engines.weights import Weights
from omni_host.errors import StageStartError

__all__ = ["KvCache"]

_ACCELERATOR_SHARE, _CPU_SHARE = 0.85, 0.25


class KvCache:
    """One tensor a layer, [pages + 1, page_size, 2 * kv_heads, head_dim], keys first.

    The last page is scratch, for the padding of batches. Everything starts at zero: what a
    mask leaves out must still be a number.
    """

    def __init__(self, spec: DecoderSpec, pages: int, page_size: int, weights: Weights) -> None:
        """`weights` gives device and dtype."""
        self.page_size = page_size
        self.scratch = pages
        sizes = spec.attention
        shape = (pages + 1, page_size, 2 * sizes.kv_heads, sizes.head_dim)
        self._pages = [
            torch.zeros(shape, device=weights.device, dtype=weights.dtype)
            for _ in range(spec.layers)
        ]
        self._rows = [layer.view(-1, *shape[2:]) for layer in self._pages]

    @classmethod
    def within_memory(
        cls, spec: DecoderSpec, arguments: TorchArguments, weights: Weights
    ) -> KvCache:
        """A cache of the size that the arguments ask for, or of their share of free memory.

        Raises StageStartError if that does not hold one page.
        """
        pages = _count_pages(spec, arguments, device=weights.device, dtype=weights.dtype)
        return cls(spec, pages, arguments.page_size, weights)

    def write(self, layer: int, rows: Tensor, keys_values: Tensor) -> None:
        """Keep keys and values [N, 2 * kv_heads, head_dim] in rows int64 [N] of the cache."""
        self._rows[layer].index_copy_(0, rows, keys_values)

    def read(self, layer: int, pages: Tensor) -> Tensor:
        """Pages int64 [B, P] -> [B, P * page_size, 2 * kv_heads, head_dim]."""
        read = self._pages[layer].index_select(0, pages.flatten())
        return read.view(len(pages), -1, *read.shape[2:])


def _count_pages(
    spec: DecoderSpec, arguments: TorchArguments, *, device: torch.device, dtype: torch.dtype
) -> int:
    sizes = spec.attention
    row = spec.layers * 2 * sizes.kv_heads * sizes.head_dim * dtype.itemsize
    size = arguments.page_size
    if arguments.max_total_rows:
        pages = arguments.max_total_rows // size
    else:
        share = arguments.memory_fraction
        share = share or (_CPU_SHARE if device.type == "cpu" else _ACCELERATOR_SHARE)
        useful = arguments.max_running * -(-spec.max_positions // size)
        pages = min(int(_free_bytes(device) * share) // (row * size), useful)
    if pages < 1:
        raise StageStartError(
            f"the KV cache would have no page of {size} rows ({row} bytes a row)",
            hint="raise server_args.memory_fraction or server_args.max_total_rows",
        )
    return pages


def _free_bytes(device: torch.device) -> int:
    if device.type == "cpu":
        return _available_memory()
    module = getattr(torch, device.type)
    free, _ = module.mem_get_info(device)
    return free


def _available_memory() -> int:
    """What can be had without swapping; half of a machine that does not say."""
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
