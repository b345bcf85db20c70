"""The torch engine: requests in, steps, frames out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from omni_host.engines.engine import CacheUse, DecodeRequest, EngineBuild, StepOutput
from omni_host.engines.ledger import Entry, Ledger, Readiness
from omni_host.engines.sampler import SamplingPlan, plan_for
from omni_host.engines.torch_engine.arguments import TorchArguments
from omni_host.engines.torch_engine.model import Captured, Plans, TorchModel, added_rows
from omni_host.engines.torch_engine.scheduler import Room, Scheduler
from omni_host.engines.torch_engine.tenant import Chunk, Tenant
from omni_host.engines.weights import open_weights
from omni_host.errors import ConfigError, InvalidRequestError

__all__ = ["TorchEngine"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchEngine:
    """Continuous batching over a paged cache (`omni_host.engines.engine.Engine`)."""

    @torch.inference_mode()
    def __init__(self, build: EngineBuild) -> None:
        """Load the decoders.

        Raises ConfigError for arguments and specs, StageStartError for weights and memory.
        """
        arguments = TorchArguments.of(build.server_args)
        if build.dtype not in _DTYPES:
            raise ConfigError(
                f"the torch engine has no dtype {build.dtype!r}",
                hint=f"known: {', '.join(_DTYPES)}",
                field="dtype",
            )
        device, dtype = torch.device(build.device), _DTYPES[build.dtype]
        self._build = build
        self._arguments = arguments
        self._device = device
        weights = open_weights(
            build.weights,
            device=build.device,
            dtype=dtype,
            load_format=arguments.load_format,
            seed=arguments.dummy_seed,
        )
        self._ledger = Ledger(build, device=device, dtype=dtype)
        self._model = TorchModel(build, weights, arguments)
        room = Room(self._model.pages, arguments.page_size, prefix_cache=arguments.prefix_cache)
        self._scheduler = Scheduler(
            room, max_running=arguments.max_running, chunk_rows=arguments.chunk_rows
        )
        self._burst = 0

    @torch.inference_mode()
    def submit(self, request: DecodeRequest) -> None:
        """Queue a request. Raises InvalidRequestError that names the field."""
        if request.id in self._scheduler:
            raise InvalidRequestError(f"{request.id!r} is inside already", field="id")
        self._scheduler.enqueue(self._ledger.open(request))

    def cancel(self, request_id: str) -> bool:
        return self._scheduler.cancel(request_id)

    @torch.inference_mode()
    def step(self) -> Sequence[StepOutput]:
        """One prefill step over `chunk_rows` rows, or one decode step over all that are ready.

        Prefill goes first, but not more than `prefill_burst` times while others are ready.
        """
        outputs: list[StepOutput] = []
        ready = self._ask(outputs)
        while (entry := self._scheduler.admissible()) is not None:
            self._admit(entry)
        chunks = self._scheduler.chunks()
        if chunks and (not ready or self._burst < self._arguments.prefill_burst):
            self._burst += 1
            self._prefill(chunks, outputs)
        elif ready:
            self._burst = 0
            self._decode(ready, outputs)
        return outputs

    @property
    def inside(self) -> int:
        return self._scheduler.inside

    def cache_use(self) -> CacheUse:
        return self._scheduler.room.use()

    def close(self) -> None:
        """Free the decoders and the cache; the engine is of no use afterwards."""
        del self._model

    def _ask(self, outputs: list[StepOutput]) -> list[Tenant]:
        """Ask the programs for rows; those that have one are ready."""
        ready: list[Tenant] = []
        for tenant in list(self._scheduler.tenants.values()):
            if not tenant.is_filled:
                continue
            readiness = self._ledger.ask(tenant.entry)
            if readiness is Readiness.READY:
                ready.append(tenant)
            elif readiness is Readiness.ENDED:
                self._scheduler.leave(tenant)
                outputs.append(tenant.entry.ended())
        return ready

    def _admit(self, entry: Entry) -> None:
        tenant = self._scheduler.admit(entry)
        if entry.added:
            tenant.rows = self._ledger.refill(entry, self._model.feedback)
            tenant.positions = self._ledger.refill_positions(entry)
        self._model.admit(entry, tenant.slot, self._ledger)
        self._model.set_pages(tenant.slot, 0, tenant.pages)
        if tenant.wants_states:
            for index, node in enumerate(tenant.held):
                if node.states:
                    tenant.place_states(index * self._arguments.page_size, node.states)

    def _prefill(self, chunks: Sequence[Chunk], outputs: list[StepOutput]) -> None:
        capture = self._model.spec.capture if any(it.tenant.wants_states for it in chunks) else ()
        state, captured = self._model.prefill(chunks, capture=capture)
        last = -1
        emitting: list[Tenant] = []
        ends: list[int] = []
        for chunk, states in zip(chunks, captured, strict=True):
            last += chunk.stop - chunk.start
            self._fill(chunk, states)
            if chunk.emits:
                emitting.append(chunk.tenant)
                ends.append(last)
        if not emitting:
            return
        slots, frames = self._index(emitting, len(emitting))
        produced = self._model.emit(state[ends], slots, frames, self._plans(emitting))
        self._close_frames(emitting, produced, {}, outputs)

    def _fill(self, chunk: Chunk, states: Captured) -> None:
        tenant = chunk.tenant
        tenant.filled = chunk.stop
        if tenant.wants_states:
            tenant.place_states(chunk.start, states)
            tenant.keep_page_states(chunk.start, states, self._arguments.page_size)
        if tenant.is_filled:
            self._scheduler.room.keep(tenant)

    def _decode(self, ready: Sequence[Tenant], outputs: list[StepOutput]) -> None:
        tenants, grown = self._scheduler.grow(ready)
        for tenant in grown:
            self._model.set_pages(tenant.slot, len(tenant.pages) - 1, tenant.pages[-1:])
        batch = self._batch_size(len(tenants))
        added = added_rows(tenants, self._ledger, batch)
        for tenant in tenants:
            tenant.entry.feed()
        wants = any(tenant.entry.request.want_decode_states for tenant in tenants)
        produced, captured = self._model.decode(
            self._index(tenants, batch),
            added,
            pages=self._pages(tenants),
            plans=self._plans(tenants),
            capture=self._model.spec.capture if wants else (),
        )
        self._close_frames(tenants, produced, captured, outputs)

    def _close_frames(
        self,
        tenants: Sequence[Tenant],
        produced: Tensor,
        captured: Captured,
        outputs: list[StepOutput],
    ) -> None:
        rows: list[list[int]] = cast("Any", produced).tolist()
        for at, (tenant, row) in enumerate(zip(tenants, rows)):  # noqa: B905 (padding follows)
            first = not tenant.entry.prefilled
            codes, finished = self._ledger.record(tenant.entry, row[0], row[1:] or row)
            wants = tenant.entry.request.want_decode_states
            outputs.append(
                StepOutput(
                    id=tenant.entry.request.id,
                    codes=codes,
                    finished=finished,
                    prompt_states=tenant.states if first else {},
                    decode_state=_row(captured, at) if wants else {},
                    reused_rows=tenant.reused if first else None,
                )
            )
            if finished:
                self._scheduler.leave(tenant)

    def _index(self, tenants: Sequence[Tenant], batch: int) -> Tensor:
        """Slots and frame counts, int64 [2, batch]; padding is the first frame of scratch."""
        padding = batch - len(tenants)
        slots = [tenant.slot for tenant in tenants] + [self._model.scratch_slot] * padding
        frames = [len(tenant.entry.tokens) for tenant in tenants] + [1] * padding
        return torch.tensor((slots, frames)).to(self._device)

    def _batch_size(self, count: int) -> int:
        return min((size for size in self._arguments.batch_sizes if size >= count), default=count)

    def _pages(self, tenants: Sequence[Tenant]) -> int:
        """Pages of the longest request; few different numbers where batches are padded."""
        size = self._arguments.page_size
        pages = max(-(-tenant.entry.rows // size) for tenant in tenants)
        if not self._arguments.batch_sizes:
            return pages
        return min(1 << (pages - 1).bit_length(), self._model.most_pages)

    def _plans(self, tenants: Sequence[Tenant]) -> Plans:
        requests = [tenant.entry.request for tenant in tenants]
        residual = SamplingPlan()
        if (frame := self._build.frame) is not None:
            residual = plan_for(it.residual_sampling or frame.sampling for it in requests)
        return Plans(token=plan_for(it.sampling for it in requests), residual=residual)


def _row(captured: Mapping[int, Tensor], at: int) -> dict[int, Tensor]:
    return {layer: state[at].clone() for layer, state in captured.items()}
