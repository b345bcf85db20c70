"""A request as SGLang's batches know it, beside the books that the engine keeps of it."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omni_host.engines.ledger import Entry
from omni_host.engines.prompts import RowKey
from omni_host.engines.sglang_engine.captured import CapturedStates
from omni_host.engines.sglang_engine.model import Added
from omni_host.engines.sglang_engine.worker import Worker

__all__ = ["FED", "Held", "hold"]

FED = 0
"""Stands for every generated row; such rows never enter the radix cache."""


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One request inside the engine.

    Attributes:
        entry: what was asked, produced and fed.
        req: SGLang's side of it. Its ids stand for rows: the prompt's come from the row
            keys, one more is appended for each frame.
        reusable: whether its prompt may come from, and go to, the prefix cache.
        rows, positions: all that the prefill under way computes, [n, width] and [P, n].
        reused_rows: how many prompt rows came from the cache.
        prefilled: whether its first prefill is complete and has been told.
    """

    entry: Entry
    req: Any
    reusable: bool
    rows: Tensor | None = None
    positions: Tensor | None = None
    reused_rows: int = 0
    prefilled: bool = False

    @property
    def id(self) -> str:
        return self.entry.request.id

    def match(self, worker: Worker, captured: CapturedStates) -> None:
        """Look for a cached prefix. It leaves a row to compute, and ends before any row whose
        states are wanted but not kept."""
        self.req.init_next_round_input()
        limit = len(self.req.full_untruncated_fill_ids) - 1
        wanted = () if self.prefilled else self.entry.prompt.wanted
        locations = self._match(worker, limit)
        missing = captured.first_missing(locations, wanted)
        if missing is not None:
            locations = self._match(worker, missing)
        if not self.prefilled:
            self.reused_rows = len(locations)

    def _match(self, worker: Worker, limit: int) -> Tensor:
        req, sgl = self.req, worker.sgl
        key = sgl.RadixKey(req.full_untruncated_fill_ids, req.extra_key, limit=limit)
        found = worker.cache.match_prefix(sgl.MatchPrefixParams(key=key, req=req))
        req.prefix_indices = found.device_indices
        req.last_node = found.last_device_node
        req.last_host_node = found.last_host_node
        req.best_match_node = found.best_match_node
        worker.place(req).cache_protected_len = len(found.device_indices)
        return found.device_indices

    def locations(self, worker: Worker) -> Tensor:
        """Where the rows that are in the cache by now stand in the KV pool, int64 [n]."""
        table = worker.requests.req_to_token
        return table[worker.place(self.req).req_pool_idx, : self.req.extend_range.end].to(
            torch.int64
        )

    def keep_prefix(self, worker: Worker, *, chunked: bool) -> None:
        """After a prefill: its rows into the prefix cache, or else only into its own books.

        Rows that were generated have no keys, so what is refilled after a retraction
        stays out.
        """
        req = self.req
        if self.reusable and not self.prefilled:
            worker.sgl.maybe_cache_unfinished_req(req, worker.cache, chunked=chunked)
            return
        req.prefix_indices = self.locations(worker)

    def injected(self, base: int) -> list[Added]:
        """What to add in this chunk, whose first row is row `base` of the batch."""
        start, end = self.req.extend_range
        added: list[Added] = []
        for part in self.entry.prompt.inject:
            here = (part.at >= start) & (part.at < end)
            if here.any():
                at = part.at[here] - start + base
                added.append(Added(layer=part.layer, at=at, rows=part.rows[here]))
        return added


def hold(entry: Entry, worker: Worker) -> Held:
    """Make SGLang's side of a request."""
    sgl = worker.sgl
    prompt = entry.prompt
    reusable = prompt.keys is not None and not worker.cache.disable
    ids = array("q", map(_row_id, prompt.keys or ())) or array("q", [FED]) * prompt.length
    # How many rows it may still feed is all that SGLang's policy wants to know of it.
    params = sgl.SamplingParams(max_new_tokens=max(1, entry.request.max_frames - 1))
    params.normalize(None)
    req = sgl.Req(
        rid=entry.request.id,
        origin_input_text="",
        origin_input_ids=ids,
        sampling_params=params,
        vocab_size=worker.model.about.scored,
        extra_key=None if reusable else f"{entry.order}",
    )
    return Held(entry=entry, req=req, reusable=reusable)


def _row_id(key: RowKey) -> int:
    """63 bits of a hash of content and positions: equal ids mean equal rows."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
