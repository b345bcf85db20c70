"""Which requests the next prefill takes in, and how many of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from omni_host.engines.sglang_engine.captured import CapturedStates
from omni_host.engines.sglang_engine.held import Held
from omni_host.engines.sglang_engine.worker import Worker

__all__ = ["Admission", "admit"]


class Admission:
    """What SGLang's policy let in.

    Attributes:
        taken: who takes part, in order.
        chunked: the one of them whose prefill goes on in a later step, if any.
    """

    def __init__(self, taken: list[Held], chunked: Held | None) -> None:
        self.taken = taken
        self.chunked = chunked


def admit(
    worker: Worker,
    waiting: Sequence[Held],
    chunked: Held | None,
    holding: Sequence[Held],
    captured: CapturedStates,
    *,
    ratio: float,
) -> Admission:
    """Ask SGLang's PrefillAdder: first the prefill that is under way, then who waits, in order.

    `holding` are the requests that decode or are parked, `captured` has the states that go
    with cached prefixes; `ratio` is the share of their
    frames that they are expected to use.
    """
    args = worker.server_args
    chunk = args.chunked_prefill_size
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
    if chunked is not None:
        offered[chunked.req] = chunked
        chunked.req.init_next_round_input()
        unfinished = adder.add_chunked_req(chunked.req)
    free = worker.requests.available_size()
    for held in waiting[:free]:
        offered[held.req] = held
        held.match(worker, captured)
        answer = adder.add_one_req(
            held.req, has_chunked_req=unfinished is not None, truncation_align_size=None
        )
        if answer != worker.sgl.AddReqResult.CONTINUE:
            break
    unfinished = adder.new_chunked_req or unfinished
    return Admission(
        [offered[req] for req in adder.can_run_list],
        None if unfinished is None else offered[unfinished],
    )
