"""The batch of requests that decode: who is in it, who sits out, who is thrown out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from omni_host.engines.sglang_engine.held import Held
from omni_host.engines.sglang_engine.worker import Worker

__all__ = ["Running"]


class Running:
    """The running batch, and the requests parked beside it, which keep their KV rows."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._batch: Any = None
        self._members: list[Held] = []
        self.parked: list[Held] = []

    @property
    def members(self) -> Sequence[Held]:
        """Who decodes, in the batch's order."""
        return self._members

    @property
    def holding(self) -> list[Held]:
        """Everyone here that holds KV rows."""
        return [*self._members, *self.parked]

    def add(self, batch: Any, joining: Sequence[Held]) -> None:
        """Take in a batch of exactly these requests, whose rows are all in the cache."""
        if not joining:
            return
        if self._members:
            self._batch.merge_batch(batch)
        else:
            self._batch = batch
        self._members += joining

    def park(self, out: Callable[[Held], bool]) -> None:
        """Let requests sit out: they leave the batch and keep their rows."""
        leaving = [held for held in self._members if out(held)]
        self._drop(leaving)
        self.parked += leaving

    def rejoin(self, back: Callable[[Held], bool]) -> None:
        """Bring parked requests back into the batch."""
        joining = [held for held in self.parked if back(held)]
        if joining:
            self.parked = [held for held in self.parked if held not in joining]
            self.add(self._standing(joining), joining)

    def remove(self, leaving: Iterable[Held]) -> None:
        """Free what these requests hold, whether they decode or are parked."""
        gone = set(leaving)
        for held in gone:
            self._worker.release(held.req)
        self._drop(gone)
        self.parked = [held for held in self.parked if held not in gone]

    def retract(self) -> tuple[list[Held], float | None]:
        """Make room for one more row each; gives who lost its rows, and SGLang's new estimate
        of how much of its frames a request uses (None if nobody that decodes was touched).

        Parked requests go first, the youngest first: they need their rows last.
        """
        lost: list[Held] = []
        while self.parked and not self._batch.check_decode_mem():
            youngest = max(self.parked, key=lambda held: held.entry.order)
            self.parked.remove(youngest)
            self._worker.retract(youngest.req)
            lost.append(youngest)
        if self._batch.check_decode_mem():
            return lost, None
        retracted, ratio, aborted = self._worker.retract_some(self._batch)
        assert not aborted, "a request was admitted that can never fit"
        by_req = {held.req: held for held in self._members}
        lost += [by_req[req] for req in retracted]
        self._members = [by_req[req] for req in self._batch.reqs]
        return lost, ratio

    def fits(self) -> bool:
        """Whether the next decode step has room, once unused prefixes are evicted."""
        return self._batch.check_decode_mem()

    def prepare(self) -> Any:
        """The batch, with a place in the cache for each request's next row."""
        self._batch.prepare_for_decode()
        return self._batch

    def _drop(self, leaving: Iterable[Held]) -> None:
        gone = set(leaving)
        keep = [i for i, held in enumerate(self._members) if held not in gone]
        if len(keep) < len(self._members):
            self._batch.filter_batch(keep_indices=keep)
            self._members = [self._members[i] for i in keep]

    def _standing(self, joining: Sequence[Held]) -> Any:
        """A batch of requests whose rows are in the cache already.

        ScheduleBatch has no constructor for this; these are the fields that merge_batch and
        prepare_for_decode read.
        """
        worker = self._worker
        batch = worker.batch([held.req for held in joining])
        places = torch.tensor([worker.place(held.req).req_pool_idx for held in joining])
        rows = torch.tensor([worker.place(held.req).kv_committed_len for held in joining])
        batch.req_pool_indices, batch.req_pool_indices_cpu = places.to(batch.device), places
        batch.seq_lens, batch.seq_lens_cpu = rows.to(batch.device), rows
        batch.orig_seq_lens = rows.to(batch.device, torch.int32)
        batch.input_ids = torch.zeros(len(joining), dtype=torch.int64, device=batch.device)
        batch.multimodal_inputs = [None] * len(joining)
        batch.sampling_info = worker.sgl.SamplingBatchInfo.from_schedule_batch(
            batch, worker.model.about.scored
        )
        return batch
