"""Embedding tables of codes, each kept once, in one matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines.decoder import TensorSource
from omni_host.engines.frame import Table
from omni_host.engines.weights import Weights

__all__ = ["TableBank", "load_table"]


def load_table(table: Table, width: int, weights: Weights, name: str) -> Tensor:
    """The codes' rows of a table, [size, width]."""
    first = (table.source.rows[0] if table.source.rows else 0) + table.offset
    source = TensorSource(name=table.source.name, rows=(first, first + table.size))
    return weights.take(source, (table.size, width), name)


class TableBank:
    """Tables of one width stacked; equal ones share their rows."""

    def __init__(self, tables: Sequence[Table], width: int, weights: Weights) -> None:
        self._starts: dict[Table, int] = {}
        loaded: list[Tensor] = []
        height = 0
        for table in tables:
            if table not in self._starts:
                self._starts[table] = height
                loaded.append(load_table(table, width, weights, f"embedding {table.source.name}"))
                height += table.size
        self._rows = torch.cat(loaded) if loaded else torch.empty(0, width)

    def start(self, table: Table) -> int:
        """The row of the table's code 0."""
        return self._starts[table]

    def embed(self, codes: Tensor, start: int | Tensor) -> Tensor:
        """Codes int64 [...] of the tables that start there -> [..., width]."""
        return functional.embedding(codes + start, self._rows)
