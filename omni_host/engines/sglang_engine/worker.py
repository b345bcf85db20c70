"""One SGLang worker in this process: configuration, weights, KV pools and forward passes.

SGLang keeps its configuration, its process groups and its parallel state in globals, so a
process holds one worker at a time. `Worker.close` takes them down again, and another may
follow.
"""

from __future__ import annotations

import gc
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from omni_host.engines.sglang_engine import editions, passes
from omni_host.engines.sglang_engine.description import ARCHITECTURE, MODEL_TYPE
from omni_host.engines.sglang_engine.model import OmniDecoder, Prefill
from omni_host.engines.sglang_engine.ranks import Followers, Start, shared_cores
from omni_host.engines.sglang_engine.symbols import Sglang
from omni_host.errors import StageStartError

__all__ = ["Forwarded", "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """What a forward pass gives.

    Attributes:
        scores: [B, C], of each request's last row, over the head's candidates.
        states: [n, (1 + captures) * width]: after the final norm, then each captured layer,
            of every row that went in.
    """

    scores: Tensor
    states: Tensor


class Worker:
    """A TpModelWorker with its pools and radix cache.

    Raises StageStartError if this process has one already, ConfigError for server
    arguments that cannot be.
    """

    _open: ClassVar[bool] = False

    def __init__(self, sgl: Sglang, start: Start) -> None:
        if Worker._open:
            raise StageStartError(
                "This process has an sglang engine already, and SGLang allows one a process",
                hint="give each stage whose engine is sglang a `process` of its own",
            )
        self.sgl = sgl
        Worker._open = True
        self._closed = False
        self._followers: Followers | None = None
        try:
            with tempfile.TemporaryDirectory(prefix="omni-sglang-") as folder:
                _register(sgl)
                start.description.write(Path(folder))
                args = start.arguments.server_args(sgl, folder)
                self.server_args = editions.resolved(sgl, args)
                with shared_cores(start.arguments.ranks):
                    if start.rank == 0:
                        self._followers = Followers(start)
                    self._start(args, start.rank, start.port)
        except (AssertionError, RuntimeError, ValueError) as error:
            self.close()
            raise StageStartError(
                f"SGLang {sgl.version} does not start: {type(error).__name__}: {error}"
            ) from error
        except BaseException:
            self.close()
            raise

    def _start(self, args: Any, rank: int, port: int) -> None:
        sgl = self.sgl
        with warnings.catch_warnings():
            # Its start-up warns of deprecated torch calls; none of them is ours to change.
            warnings.simplefilter("ignore")
            self._worker = editions.tp_model_worker(sgl, args, rank, port)
            self._worker.alloc_memory_pool()
            self._worker.init_attention_backends()
            # Without graphs this installs the runner that goes without them.
            self._worker.init_cuda_graphs()
        self.runner = self._worker.model_runner
        self.model: OmniDecoder = self.runner.model
        self.requests, self.allocator = self._worker.get_memory_pool()
        self.page = self.server_args.page_size
        self.cache = sgl.RadixCache(
            sgl.CacheInitParams(
                disable=self.server_args.disable_radix_cache,
                req_to_token_pool=self.requests,
                token_to_kv_pool_allocator=self.allocator,
                page_size=self.page,
            )
        )

    def place(self, req: Any) -> Any:
        """Where a request's rows are; see `editions.place`."""
        return editions.place(self.sgl, req)

    @property
    def rows(self) -> int:
        """How many rows the KV pool holds."""
        return self.allocator.size

    @property
    def slots(self) -> int:
        """How many requests may hold rows at once."""
        return self.requests.size

    def batch(self, requests: list[Any], chunked: Any = None) -> Any:
        """A ScheduleBatch of these requests over this worker's pools."""
        return self.sgl.ScheduleBatch.init_new(
            requests,
            self.requests,
            self.allocator,
            self.cache,
            self._worker.model_config,
            False,  # noqa: FBT003  no overlap; the parameter is positional in SGLang
            self.sgl.SpeculativeAlgorithm.NONE,
            chunked_req=chunked,
        )

    def release(self, req: Any) -> None:
        """Free a request's rows; those that the prefix cache holds stay there."""
        self.sgl.release_kv_cache(req, self.cache, is_insert=False)

    def retract(self, req: Any) -> None:
        """Free a request's rows and make it ready to be prefilled again."""
        self.sgl.release_req(
            req=req,
            remaing_req_count=0,
            **editions.retraction(self.sgl, self.server_args),
            req_to_token_pool=self.requests,
            token_to_kv_pool_allocator=self.allocator,
            tree_cache=self.cache,
            hisparse_coordinator=None,
        )

    def retract_some(self, batch: Any) -> tuple[list[Any], float, list[Any]]:
        """Let SGLang retract from a batch until its next step fits: who, its new estimate of
        the share of their frames that requests use, and whom it gave up."""
        return batch.retract_decode(**editions.retraction(self.sgl, self.server_args))

    def prefill(self, batch: Any, entering: Prefill) -> Forwarded:
        """Run a batch that `prepare_for_extend` has prepared."""
        self._tell(batch, entering)
        return self._run_prefill(batch, entering)

    def decode(self, batch: Any, rows: Tensor, positions: Tensor) -> Forwarded:
        """Run a batch that `prepare_for_decode` has prepared: rows [B, width], positions [P, B]."""
        positions = positions.expand(len(self.model.decode_positions), -1)
        entering = Prefill(rows=rows, positions=positions)
        self._tell(batch, entering)
        return self._run_decode(batch, entering)

    def follow(self) -> None:
        """Repeat the passes of rank 0 until it ends them."""
        group, model = self.sgl.get_parallel().tp_group, self.model
        lines = len(model.decode_positions)
        while (one := passes.receive(group, like=model.decode_rows, lines=lines)) is not None:
            self._repeat(one)

    def _tell(self, batch: Any, entering: Prefill) -> None:
        if self._followers is not None:
            table = self.requests.req_to_token
            self._followers.repeat(self.sgl.get_parallel().tp_group, batch, entering, table)

    def _repeat(self, one: passes.Pass) -> None:
        fresh: list[int] = _listed(one.fresh)
        places: list[int] = _listed(one.places)
        lengths: list[int] = _listed(one.lengths)
        entries = torch.split(one.table.to(torch.int32), fresh)
        for place, length, entry in zip(places, lengths, entries, strict=True):
            self.requests.req_to_token[place, length - len(entry) : length] = entry
        batch = self.batch([])
        modes = self.sgl.ForwardMode
        batch.forward_mode = modes.DECODE if one.decoding else modes.EXTEND
        batch.req_pool_indices, batch.seq_lens = one.places, one.lengths
        batch.seq_lens_cpu = one.lengths.cpu()
        batch.orig_seq_lens = one.lengths.to(torch.int32)
        batch.out_cache_loc = one.locations
        if one.decoding:
            self._run_decode(batch, one.entering)
            return
        batch.extend_lens = _listed(one.extends)
        batch.prefix_lens = _listed(one.lengths - one.extends)
        batch.extend_num_tokens = len(one.locations)
        batch.extend_logprob_start_lens = batch.extend_lens
        self._run_prefill(batch, one.entering)

    def _run_prefill(self, batch: Any, entering: Prefill) -> Forwarded:
        batch.input_ids = torch.zeros(len(entering.rows), dtype=torch.int64, device=batch.device)
        batch.prefill_input_ids_cpu = None
        self.model.prefill = entering
        try:
            return self._forward(batch)
        finally:
            self.model.prefill = None

    def _run_decode(self, batch: Any, entering: Prefill) -> Forwarded:
        count = len(entering.rows)
        self.model.decode_rows[:count] = entering.rows
        self.model.decode_positions[:, :count] = entering.positions
        batch.input_ids = torch.arange(count, device=batch.device)
        return self._forward(batch)

    def _forward(self, batch: Any) -> Forwarded:
        entering = self.sgl.ForwardBatch.init_new(
            batch, self.runner, return_hidden_states_before_norm=False
        )
        output = self.runner.forward(entering).logits_output
        return Forwarded(scores=output.next_token_logits, states=output.hidden_states)

    def close(self) -> None:
        """Free the pools and take SGLang's globals down."""
        if self._closed:
            return
        self._closed = True
        self._end_followers()
        for name in ("runner", "model", "requests", "allocator", "cache", "_worker"):
            self.__dict__.pop(name, None)
        self.sgl.destroy_model_parallel()
        self.sgl.destroy_distributed_environment()
        self.sgl.reset_context()
        gc.collect()
        Worker._open = False

    def _end_followers(self) -> None:
        if self._followers is None:
            return
        if hasattr(self, "cache"):
            self._followers.end(self.sgl.get_parallel().tp_group, self.model.decode_rows.device)
        else:
            self._followers.kill()


def _listed(integers: Tensor) -> list[int]:
    return cast("Any", integers).tolist()


def _register(sgl: Sglang) -> None:
    """Make the model class and its configuration known, under names that are ours alone."""
    config = type("OmniDecoderConfig", (sgl.PretrainedConfig,), {"model_type": MODEL_TYPE})
    sgl.AutoConfig.register(MODEL_TYPE, config, exist_ok=True)
    sgl.ModelRegistry.models[ARCHITECTURE] = OmniDecoder
