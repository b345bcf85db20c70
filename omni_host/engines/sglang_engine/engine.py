"""The sglang engine: a loop of our own over SGLang's batches, policy, cache and worker.

Scheduling is SGLang's (PrefillAdder decides what fits, ScheduleBatch allocates and
retracts, RadixCache keeps prefixes); what a step is, who takes part in it, what is fed and
what is drawn is this package's. SGLang's sampler and its Scheduler are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from omni_host.engines.engine import CacheUse, DecodeRequest, EngineBuild, StepOutput
from omni_host.engines.ledger import Ledger, Readiness
from omni_host.engines.sglang_engine import editions
from omni_host.engines.sglang_engine.arguments import Arguments
from omni_host.engines.sglang_engine.captured import CapturedStates
from omni_host.engines.sglang_engine.description import Description
from omni_host.engines.sglang_engine.drawing import Drawing
from omni_host.engines.sglang_engine.held import FED, Held, hold
from omni_host.engines.sglang_engine.prefills import Prefills
from omni_host.engines.sglang_engine.ranks import Start
from omni_host.engines.sglang_engine.running import Running
from omni_host.engines.sglang_engine.symbols import load
from omni_host.engines.sglang_engine.worker import Forwarded, Worker
from omni_host.engines.weights import open_weights
from omni_host.errors import ConfigError, InvalidRequestError

__all__ = ["SglangEngine"]


class SglangEngine:
    """`Engine` over SGLang; one a process at a time.

    Raises StageStartError if SGLang cannot be used here or the weights cannot be read,
    ConfigError for server arguments or specs that cannot be served.
    """

    def __init__(self, build: EngineBuild) -> None:
        if build.decoder.head is None:
            raise ConfigError("the outer decoder of an engine needs a head", field="decoder.head")
        kind = build.device.partition(":")[0]
        sgl = load(kind)
        arguments = Arguments.of(sgl, build)
        dtype = _dtype(build.dtype)
        weights = open_weights(
            build.weights,
            device=build.device,
            dtype=dtype,
            load_format=arguments.load_format,
            seed=arguments.random_seed,
        )
        self._ledger = Ledger(build, device=weights.device, dtype=dtype)
        self._drawing = Drawing(build, weights, places=arguments.max_running_requests + 1)
        description = Description(
            decoder=build.decoder,
            weights=build.weights,
            device=kind,
            load_format=arguments.load_format,
            seed=arguments.random_seed,
            candidates=self._drawing.candidates,
            slots=arguments.max_running_requests,
        )
        port = sgl.get_open_port()
        self._worker = Worker(
            sgl, Start(description=description, arguments=arguments, rank=0, port=port)
        )
        self._build = build
        self._columns = _columns(build)
        self._captured = CapturedStates(self._worker, self._columns)
        self._held: dict[str, Held] = {}
        self._prefills = Prefills(self._worker, self._ledger, self._drawing, self._captured)
        self._running = Running(self._worker)
        self._ratio = editions.ratio_tracker(sgl, self._worker.server_args)
        self._decode_is_due = False

    def submit(self, request: DecodeRequest) -> None:
        """Queue a request.

        Raises InvalidRequestError for a bad field, an id that is inside, or a request that
        the KV cache could never hold.
        """
        if request.id in self._held:
            raise InvalidRequestError(f"a request {request.id!r} is inside already", field="id")
        entry = self._ledger.open(request)
        # The policy admits a request only if one page more than its rows is there.
        needs = entry.prompt.length + max(1, request.max_frames - 1) + self._worker.page + 1
        if needs > self._worker.rows:
            raise InvalidRequestError(
                f"{entry.prompt.length} prompt rows and {request.max_frames} frames need {needs} "
                f"rows of KV cache; there are {self._worker.rows}",
                hint="ask for fewer frames, or raise max_total_tokens or mem_fraction_static",
                field="max_frames",
            )
        if entry.prompt.wanted:
            self._captured.wanted()
        held = hold(entry, self._worker)
        self._held[held.id] = held
        self._prefills.add(held)

    def cancel(self, request_id: str) -> bool:
        """Free what the request holds, between steps; False if it is not inside."""
        held = self._held.get(request_id)
        if held is None:
            return False
        self._forget([held])
        return True

    @property
    def inside(self) -> int:
        """How many requests are queued, running or waiting."""
        return len(self._held)

    def cache_use(self) -> CacheUse:
        """KV accounting, in rows."""
        total, free = self._worker.rows, self._worker.allocator.available_size()
        cached = self._worker.cache.evictable_size()
        return CacheUse(total=total, free=free, cached=cached, active=total - free - cached)

    def close(self) -> None:
        """Free everything; another engine may be built in this process afterwards."""
        self._held.clear()
        self._worker.close()

    @torch.no_grad()
    def step(self) -> Sequence[StepOutput]:
        """One prefill or one decode step.

        They take turns while both have work, so a long prompt read in chunks never holds
        back those that decode by more than one chunk.
        """
        ready, outputs = self._ask()
        if not (self._decode_is_due and any(held in ready for held in self._running.holding)):
            prefilled = self._prefill(ready)
            if prefilled is not None:
                self._decode_is_due = True
                return [*outputs, *prefilled]
        self._decode_is_due = False
        return [*outputs, *self._decode(ready)]

    def _ask(self) -> tuple[set[Held], list[StepOutput]]:
        """Ask every program that owes a row: who is ready, and who ends here."""
        ready: set[Held] = set()
        ended: list[Held] = []
        for held in self._held.values():
            if not held.entry.prefilled:
                continue
            answer = self._ledger.ask(held.entry)
            if answer is Readiness.READY:
                ready.add(held)
            elif answer is Readiness.ENDED:
                ended.append(held)
        self._forget(ended)
        return ready, [held.entry.ended() for held in ended]

    def _prefill(self, ready: set[Held]) -> list[StepOutput] | None:
        """A prefill step, or None if there is nothing to prefill or no room for it."""
        started = self._prefills.start(ready, self._running.holding, self._ratio.current)
        if started is None:
            return None
        forwarded = self._worker.prefill(started.batch, started.entering)
        return self._close_prefill(started.batch, started.taken, forwarded)

    def _close_prefill(
        self, batch: Any, taken: Sequence[Held], forwarded: Forwarded
    ) -> list[StepOutput]:
        """Keep what was computed, and decode a frame for those whose prefill is complete."""
        lengths: list[int] = batch.extend_lens
        complete: list[int] = []
        for i, (held, states) in enumerate(
            zip(taken, torch.split(forwarded.states, lengths), strict=True)
        ):
            going_on = held is self._prefills.chunked
            held.keep_prefix(self._worker, chunked=going_on)
            self._captured.keep(held.locations(self._worker)[-len(states) :], states)
            if not going_on:
                complete.append(i)
                self._complete(held)
        done = [taken[i] for i in complete]
        if not done:
            return []
        index = torch.tensor(complete, device=forwarded.scores.device)
        last = torch.tensor(lengths, device=index.device).cumsum(0)[index] - 1
        places = batch.req_pool_indices[index]
        outputs = self._produce(done, places, forwarded.scores[index], forwarded.states[last])
        batch.input_ids = torch.zeros(len(taken), dtype=torch.int64, device=index.device)
        keep = [i for i in complete if taken[i].id in self._held]
        batch.filter_batch(keep_indices=keep)
        self._running.add(batch, [taken[i] for i in keep])
        return outputs

    def _complete(self, held: Held) -> None:
        """All rows of the request are in the cache now."""
        held.rows = held.positions = None
        if held.entry.prefilled:
            held.entry.feed()
        self._drawing.admit(held.entry, self._worker.place(held.req).req_pool_idx)

    def _decode(self, ready: set[Held]) -> list[StepOutput]:
        """A decode step of everyone who is ready and whose rows are in the cache."""
        running = self._running
        running.park(lambda held: held not in ready)
        running.rejoin(lambda held: held in ready)
        if not running.members:
            return []
        self._make_room()
        batch = running.prepare()
        members = list(running.members)
        entries = [held.entry for held in members]
        added = self._ledger.stack_added([entry.pending for entry in entries])
        rows = self._drawing.next_rows(entries, added)
        places = [entry.feed() for entry in entries]
        positions = torch.tensor(places, dtype=torch.float32, device=rows.device)
        forwarded = self._worker.decode(batch, rows, positions)
        outputs = self._produce(
            members, batch.req_pool_indices, forwarded.scores, forwarded.states, decoded=True
        )
        self._ratio.decay_step()
        return outputs

    def _make_room(self) -> None:
        """Let requests give up their rows, if the next step has no room for everyone's."""
        if self._running.fits():
            return
        self._prefills.retract()
        retracted, ratio = self._running.retract()
        self._prefills.put_back(retracted)
        if ratio is not None:
            self._ratio.current = ratio

    def _produce(
        self,
        helds: Sequence[Held],
        places: Tensor,
        scores: Tensor,
        states: Tensor,
        *,
        decoded: bool = False,
    ) -> list[StepOutput]:
        """Draw a frame for each request, close it, and let go of those that end with it."""
        width = self._build.decoder.width
        drawn = self._drawing.draw(
            [held.entry for held in helds], places, scores, states[:, :width]
        )
        outputs: list[StepOutput] = []
        ended: list[Held] = []
        for held, (token, *codes), state in zip(helds, drawn, states, strict=True):
            frame, finished = self._ledger.record(held.entry, token, codes)
            held.req.output_ids.append(FED)
            wants_state = decoded and held.entry.request.want_decode_states
            outputs.append(
                StepOutput(
                    id=held.id,
                    codes=frame,
                    finished=finished,
                    prompt_states={} if held.prefilled else self._prompt_states(held),
                    decode_state=self._decode_state(state) if wants_state else {},
                    reused_rows=None if held.prefilled else held.reused_rows,
                )
            )
            held.prefilled = True
            if finished is not None:
                ended.append(held)
        self._forget(ended)
        return outputs

    def _prompt_states(self, held: Held) -> dict[int, Tensor]:
        wanted = held.entry.prompt.wanted
        if not wanted:
            return {}
        return self._captured.take(held.locations(self._worker)[list(wanted)])

    def _decode_state(self, state: Tensor) -> dict[int, Tensor]:
        return {layer: state[span].clone() for layer, span in self._columns.items()}

    def _forget(self, leaving: Sequence[Held]) -> None:
        """Take requests out, wherever they are, and free their rows."""
        gone = set(leaving)
        for held in gone:
            del self._held[held.id]
        self._prefills.remove(gone)
        self._running.remove([held for held in self._running.holding if held in gone])
        for held in gone:
            # Those that end with the step that completed their prefill are in neither.
            if self._worker.place(held.req).req_pool_idx is not None:
                self._worker.release(held.req)


def _columns(build: EngineBuild) -> dict[int, slice]:
    """Where each captured layer stands in the worker's states."""
    width = build.decoder.width
    layers = sorted(layer for layer in build.decoder.capture if layer >= 0)
    columns = {layer: slice(i * width, (i + 1) * width) for i, layer in enumerate(layers, 1)}
    return columns | ({-1: slice(0, width)} if -1 in build.decoder.capture else {})


def _dtype(name: str) -> torch.dtype:
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise ConfigError(f"dtype is {name!r}; it is one of {', '.join(known)}", field="dtype")
    return known[name]
