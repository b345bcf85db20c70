"""Tensor parallelism: the loop runs on rank 0, and the other ranks repeat its passes.

A follower is a process of its own with its part of the weights and pools of the same size.
It has no requests, no prefix cache and no policy: before each forward pass rank 0 tells it
where the rows stand in the pool and which go in (`passes`), and it runs the same pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from omni_host.engines.sglang_engine import passes
from omni_host.engines.sglang_engine.arguments import Arguments
from omni_host.engines.sglang_engine.description import Description
from omni_host.engines.sglang_engine.model import Prefill
from omni_host.engines.sglang_engine.passes import Pass

__all__ = ["Followers", "Start", "shared_cores"]

_END_WITHIN_S = 30
_BINDING = "SGLANG_CPU_OMP_THREADS_BIND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a rank is started with.

    Attributes:
        description, arguments: of the decoder and of SGLang.
        rank: 0 is the engine itself.
        port: of the rendezvous, on this machine.
    """

    description: Description
    arguments: Arguments
    rank: int
    port: int

    def to_json(self) -> bytes:
        """What a follower reads from its standard input."""
        return _START.dump_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> Start:
        """The inverse of `to_json`."""
        return _START.validate_json(data)


_START = TypeAdapter(Start)


class Followers:
    """The other ranks, seen from the first; none if there is one rank."""

    def __init__(self, start: Start) -> None:
        self._known: dict[int, int] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        ranks = start.arguments.ranks
        for rank in range(1, ranks):
            process = subprocess.Popen(
                [sys.executable, "-m", "omni_host.engines.sglang_engine.follower"],
                stdin=subprocess.PIPE,
            )
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(replace(start, rank=rank).to_json())
            self._processes.append(process)

    def repeat(self, group: Any, batch: Any, entering: Prefill, table: Tensor) -> None:
        """Have the other ranks run this pass; `table` is SGLang's, [places, rows]."""
        if not self._processes:
            return
        decoding = batch.forward_mode.is_decode()
        places: list[int] = batch.req_pool_indices_cpu.tolist()
        lengths: list[int] = batch.seq_lens_cpu.tolist()
        # After a prefill the prefix cache may move rows, so the next pass tells all again.
        known = [self._known.get(place, 0) if decoding else 0 for place in places]
        self._known |= {
            place: length if decoding else 0 for place, length in zip(places, lengths, strict=True)
        }
        entries = [
            table[place, start:stop]
            for place, start, stop in zip(places, known, lengths, strict=True)
        ]
        lengths_cpu = batch.seq_lens_cpu
        passes.send(
            group,
            Pass(
                decoding=decoding,
                places=batch.req_pool_indices_cpu,
                lengths=lengths_cpu,
                extends=torch.ones_like(lengths_cpu)
                if decoding
                else torch.tensor(batch.extend_lens),
                fresh=lengths_cpu - torch.tensor(known),
                table=torch.cat(entries).to(torch.int64),
                locations=batch.out_cache_loc,
                entering=entering,
            ),
        )

    def end(self, group: Any, device: torch.device) -> None:
        """Tell them that there are no more passes, and wait until they have ended."""
        if not self._processes:
            return
        with suppress(RuntimeError):  # torch raises it where one is gone already
            passes.send_stop(group, device)
        with suppress(subprocess.TimeoutExpired):
            for process in self._processes:
                process.wait(_END_WITHIN_S)
        self.kill()

    def kill(self) -> None:
        """End them at once."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()


@contextmanager
def shared_cores(ranks: int) -> Generator[None]:
    """Let ranks on a CPU start: SGLang binds each to a memory node, and refuses where there
    are fewer. What is set in the environment by hand stays."""
    if ranks == 1 or _BINDING in os.environ:
        yield
        return
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    shares = [cores[rank::ranks] or cores[:1] for rank in range(ranks)]
    os.environ[_BINDING] = "|".join(",".join(map(str, share)) for share in shares)
    try:
        yield
    finally:
        del os.environ[_BINDING]
