"""A forward pass as plain tensors, so that other ranks can repeat it.

A pass is broadcast in three pieces: a header of int64, its integers in one tensor, its rows
and positions in another, as bytes. No object is serialised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omni_host.engines.sglang_engine.model import Added, Prefill

__all__ = ["Pass", "receive", "send", "send_stop"]

_HEADER = 6
_STOP, _PREFILL, _DECODE = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a rank needs besides its weights and its pools.

    Attributes:
        decoding: a decode step, else a prefill.
        places: int64 [B], each request's row in the table of requests.
        lengths: int64 [B], its rows in the cache once the pass is done.
        extends: int64 [B], how many of them this pass computes.
        fresh: int64 [B], how many of its last table entries are in `table`.
        table: int64 [sum of fresh], where these rows stand in the KV pool.
        locations: int64 [n], where the rows of this pass are written.
        entering: the rows that go in.
    """

    decoding: bool
    places: Tensor
    lengths: Tensor
    extends: Tensor
    fresh: Tensor
    table: Tensor
    locations: Tensor
    entering: Prefill


def send_stop(group: Any, device: torch.device) -> None:
    """Tell the other ranks that there are no more passes."""
    group.broadcast(torch.full((_HEADER,), _STOP, dtype=torch.int64, device=device))


def send(group: Any, one: Pass) -> None:
    """Broadcast a pass from rank 0 over SGLang's tensor-parallel group."""
    rows, inject = one.entering.rows, one.entering.inject
    counts = [len(part.at) for part in inject]
    kind = _DECODE if one.decoding else _PREFILL
    sizes = (kind, len(one.places), len(one.table), len(rows), len(inject), sum(counts))
    group.broadcast(torch.tensor(sizes, dtype=torch.int64, device=rows.device))
    marks = torch.tensor([*(part.layer for part in inject), *counts], dtype=torch.int64)
    integers = (
        *(marks, one.places, one.lengths, one.extends, one.fresh, one.table, one.locations),
        *(part.at for part in inject),
    )
    group.broadcast(torch.cat([part.to(rows.device) for part in integers]))
    group.broadcast(torch.cat((rows, *(part.rows for part in inject))).view(torch.uint8))
    group.broadcast(one.entering.positions.contiguous())


def receive(group: Any, *, like: Tensor, lines: int) -> Pass | None:
    """The next pass; None when there are no more.

    `like` is any tensor [..., width] of the device and dtype of rows; `lines` is how many
    positions a row has.
    """
    header = group.broadcast(torch.empty(_HEADER, dtype=torch.int64, device=like.device))
    kind, batch, table, count, parts, injected = header.tolist()
    if kind == _STOP:
        return None
    sizes = (parts, parts, batch, batch, batch, batch, table, count, injected)
    integers = group.broadcast(header.new_empty(sum(sizes)))
    layers, counts, places, lengths, extends, fresh, table, locations, at = integers.split(sizes)
    packed = group.broadcast(like.new_empty(count + injected, like.shape[-1]).view(torch.uint8))
    rows, added = packed.view(like.dtype).split((count, injected))
    positions = torch.empty(lines, count, dtype=torch.float32, device=like.device)
    spans = counts.tolist()
    inject = zip(layers.tolist(), at.split(spans), added.split(spans), strict=True)
    return Pass(
        decoding=kind == _DECODE,
        places=places,
        lengths=lengths,
        extends=extends,
        fresh=fresh,
        table=table,
        locations=locations,
        entering=Prefill(
            rows=rows,
            positions=group.broadcast(positions),
            inject=tuple(Added(layer=layer, at=rows, rows=more) for layer, rows, more in inject),
        ),
    )
