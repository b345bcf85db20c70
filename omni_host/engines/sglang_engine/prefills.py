"""Requests whose rows are not all in the cache yet: who is next, and with how many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from omni_host.engines.ledger import Ledger
from omni_host.engines.sglang_engine.captured import CapturedStates
from omni_host.engines.sglang_engine.drawing import Drawing
from omni_host.engines.sglang_engine.held import Held
from omni_host.engines.sglang_engine.model import Added, Prefill
from omni_host.engines.sglang_engine.worker import Worker

__all__ = ["Prefills", "Started"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A prefill step that is about to run.

    Attributes:
        taken: who takes part, in the batch's order.
        batch: SGLang's side of it, with places in the cache.
        entering: the rows that go in.
    """

    taken: Sequence[Held]
    batch: Any
    entering: Prefill


class Prefills:
    """The queue, and the one request whose prompt is being read in chunks, if any."""

    def __init__(
        self, worker: Worker, ledger: Ledger, drawing: Drawing, captured: CapturedStates
    ) -> None:
        self._worker = worker
        self._ledger = ledger
        self._drawing = drawing
        self._captured = captured
        self._waiting: list[Held] = []
        self.chunked: Held | None = None

    def add(self, held: Held) -> None:
        """Queue a new request."""
        self._waiting.append(held)

    def put_back(self, retracted: Sequence[Held]) -> None:
        """Queue requests that lost their rows, before all others."""
        self._waiting[:0] = retracted

    def remove(self, gone: Iterable[Held]) -> None:
        """Take requests out; the rows of the one that is being read are freed."""
        leaving = set(gone)
        self._waiting = [held for held in self._waiting if held not in leaving]
        if self.chunked in leaving:
            assert self.chunked is not None
            self._worker.release(self.chunked.req)
            self.chunked = None

    def retract(self) -> None:
        """Let the request that is being read give up its rows and queue again."""
        if self.chunked is not None:
            self._worker.retract(self.chunked.req)
            self.put_back([self.chunked])
            self.chunked = None

    def start(self, ready: set[Held], holding: Sequence[Held], ratio: float) -> Started | None:
        """The next prefill step, or None if there is nothing to prefill or no room for it.

        `ready` are those that have a row to feed, which one that was retracted needs;
        `holding` are those that decode or are parked, and `ratio` the share of their frames
        that SGLang expects them to use.
        """
        if self.chunked is not None and not self._next_chunk_fits(self.chunked):
            self.retract()
        taken = self._admit(ready, holding, ratio)
        if not taken:
            return None
        chunked = None if self.chunked is None else self.chunked.req
        batch = self._worker.batch([held.req for held in taken], chunked)
        batch.prepare_for_extend()
        return Started(taken=taken, batch=batch, entering=self._entering(taken))

    def _next_chunk_fits(self, chunked: Held) -> bool:
        worker = self._worker
        left = len(chunked.req.full_untruncated_fill_ids) - chunked.req.extend_range.end
        need = min(left, worker.server_args.chunked_prefill_size) + worker.page
        return worker.allocator.available_size() + worker.cache.evictable_size() >= need

    def _admit(self, ready: set[Held], holding: Sequence[Held], ratio: float) -> list[Held]:
        """Ask SGLang's policy: first the request that is being read, then the queue in order."""
        worker = self._worker
        args, chunk = worker.server_args, worker.server_args.chunked_prefill_size
        adder = worker.sgl.PrefillAdder(
            worker.page,
            worker.cache,
            worker.allocator,
            # All that it reads of a running batch.
            SimpleNamespace(reqs=[held.req for held in holding]),
            ratio,
            args.max_prefill_tokens,
            chunk if chunk and chunk > 0 else None,
        )
        offered: dict[Any, Held] = {}
        unfinished: Any = None
        if self.chunked is not None:
            offered[self.chunked.req] = self.chunked
            self.chunked.req.init_next_round_input()
            unfinished = adder.add_chunked_req(self.chunked.req)
        able = [held for held in self._waiting if held in ready or not held.entry.prefilled]
        for held in able[: worker.requests.available_size()]:
            offered[held.req] = held
            held.match(worker, self._captured)
            answer = adder.add_one_req(
                held.req, has_chunked_req=unfinished is not None, truncation_align_size=None
            )
            if answer != worker.sgl.AddReqResult.CONTINUE:
                break
        unfinished = adder.new_chunked_req or unfinished
        taken = [offered[req] for req in adder.can_run_list]
        self._waiting = [held for held in self._waiting if held not in taken]
        self.chunked = None if unfinished is None else offered[unfinished]
        return taken

    def _entering(self, taken: Sequence[Held]) -> Prefill:
        """The rows that these requests' extend ranges name."""
        rows: list[Tensor] = []
        positions: list[Tensor] = []
        inject: list[Added] = []
        base = 0
        for held in taken:
            if held.rows is None or held.positions is None:
                held.rows, held.positions = self._laid_out(held)
            start, end = held.req.extend_range
            inject += held.injected(base)
            rows.append(held.rows[start:end])
            positions.append(held.positions[:, start:end])
            base += end - start
        return Prefill(
            rows=torch.cat(rows), positions=torch.cat(positions, 1), inject=tuple(inject)
        )

    def _laid_out(self, held: Held) -> tuple[Tensor, Tensor]:
        """All rows that the cache is to hold, and their positions: the prompt's, those fed
        since, and the pending one."""
        entry, prompt = held.entry, held.entry.prompt
        if not entry.prefilled:
            return prompt.rows, prompt.positions
        fed = self._ledger.refill(entry, self._drawing.feedback)
        pending = self._drawing.next_rows([entry], self._ledger.stack_added([entry.pending]))
        rows = torch.cat((fed, pending))
        after = torch.arange(len(rows) - prompt.length, device=rows.device)
        generated = (after + prompt.next_position).expand(len(prompt.positions), -1)
        return rows, torch.cat((prompt.positions, generated), dim=1)
