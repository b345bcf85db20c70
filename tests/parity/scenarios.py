"""Ways to run the same requests that must not change what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from omni_host.engines import DecodeRequest, Engine, Prompt
from tests.parity.programs import Decoding, Recorded, RecordedProgram

MAX_STEPS = 100_000


@dataclass(slots=True)
class Outcome:
    """What came out for one request."""

    codes: list[tuple[int, ...]] = field(default_factory=list)
    finished: str | None = None
    reused_rows: int = 0
    prompt_states: Mapping[int, torch.Tensor] = field(default_factory=dict)


def drive(
    engine: Engine,
    arrivals: Iterable[tuple[int, DecodeRequest]],
    cancel: Callable[[int], str | None] = lambda step: None,
) -> dict[str, Outcome]:
    """Step until all is done; `arrivals` say at which step each request is submitted."""
    waiting = sorted(arrivals, key=lambda pair: pair[0])
    outcomes: dict[str, Outcome] = {request.id: Outcome() for _, request in waiting}
    for step in range(MAX_STEPS):
        while waiting and waiting[0][0] <= step:
            engine.submit(waiting.pop(0)[1])
        if not waiting and not engine.inside:
            return outcomes
        if (victim := cancel(step)) and engine.cancel(victim):
            outcomes[victim].finished = "cancelled"
        for output in engine.step():
            outcome = outcomes[output.id]
            assert outcome.finished is None, f"{output.id} went on after it had finished"
            if output.codes is not None:
                outcome.codes.append(output.codes)
            if output.reused_rows is not None:
                outcome.reused_rows = output.reused_rows
            outcome.prompt_states |= output.prompt_states
            outcome.finished = output.finished
    raise AssertionError(f"{engine.inside} requests never finished")


def stranger(decoding: Decoding, name: str, seed: int) -> DecodeRequest:
    """A request with random rows that has nothing to do with the recorded ones."""
    like = decoding.requests[seed % len(decoding.requests)]
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(5 + 3 * seed, decoding.decoder.width, generator=generator)
    prompt = Prompt(rows=rows)
    recorded = replace(like, name=name, prompt=prompt, max_frames=4 + seed)
    request = decoding.request(recorded)
    return replace(request, sampling=replace(request.sampling, temperature=1.0), seed=seed)


def check(recorded: Recorded, outcome: Outcome) -> None:
    expected = [tuple(frame) for frame in recorded.expected.tolist()]
    assert outcome.codes == expected, (
        f"{recorded.name} departs at frame {_departs(expected, outcome)}"
    )
    assert outcome.finished == ("stop" if recorded.stopped else "length"), recorded.name


def _departs(expected: Sequence[tuple[int, ...]], outcome: Outcome) -> int:
    pairs = zip(expected, outcome.codes, strict=False)
    differing = [i for i, (a, b) in enumerate(pairs) if a != b]
    return min([*differing, len(expected), len(outcome.codes)])


def all_at(decoding: Decoding, at: Callable[[int], int]) -> list[tuple[int, DecodeRequest]]:
    return [(at(i), decoding.request(one)) for i, one in enumerate(decoding.requests)]


def alone(engine: Engine, decoding: Decoding, program: RecordedProgram) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for recorded in decoding.requests:
        outcomes |= drive(engine, [(0, decoding.request(recorded))])
    return outcomes


def among_strangers(
    engine: Engine, decoding: Decoding, program: RecordedProgram
) -> dict[str, Outcome]:
    strangers = [(0, stranger(decoding, f"stranger {i}", i)) for i in range(4)]
    return drive(engine, [*strangers, *all_at(decoding, lambda i: 0)])


def arriving_late(
    engine: Engine, decoding: Decoding, program: RecordedProgram
) -> dict[str, Outcome]:
    return drive(engine, all_at(decoding, lambda i: 3 * i))


def starved(engine: Engine, decoding: Decoding, program: RecordedProgram) -> dict[str, Outcome]:
    program.starved = True
    return drive(engine, all_at(decoding, lambda i: i))


def twice(engine: Engine, decoding: Decoding, program: RecordedProgram) -> dict[str, Outcome]:
    """The second time every prompt is in the prefix cache."""
    first = drive(engine, all_at(decoding, lambda i: 0))
    second = drive(engine, all_at(decoding, lambda i: 2 * i))
    for recorded in decoding.requests:
        check(recorded, first[recorded.name])
    assert any(outcome.reused_rows for outcome in second.values()), "no prefix was reused"
    return second


def beside_cancelled(
    engine: Engine, decoding: Decoding, program: RecordedProgram
) -> dict[str, Outcome]:
    strangers = [(0, stranger(decoding, f"stranger {i}", i)) for i in range(6)]
    return drive(
        engine,
        [*strangers, *all_at(decoding, lambda i: i // 2)],
        cancel=lambda step: f"stranger {step // 2}" if step % 2 and step < 12 else None,
    )


Scenario = Callable[[Engine, Decoding, RecordedProgram], dict[str, Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A scenario with the engine's arguments in words that each engine translates."""

    run: Scenario
    chunk_rows: int | None = None
    prefix_cache: bool = True
    tight: bool = False

    def server_args(self, engine: str, decoding: Decoding) -> dict[str, Any]:
        longest = max(len(r.prompt.rows) + r.max_frames for r in decoding.requests)
        rows = (longest // 16 + 3) * 16 if self.tight else 8192
        if engine == "torch":
            args = {"max_total_rows": rows, "prefix_cache": self.prefix_cache}
            return args | ({"chunk_rows": self.chunk_rows} if self.chunk_rows else {})
        args = {"max_total_tokens": rows, "disable_radix_cache": not self.prefix_cache}
        return args | ({"chunked_prefill_size": self.chunk_rows} if self.chunk_rows else {})


SETTINGS = {
    "alone": Setting(run=alone),
    "among strangers": Setting(run=among_strangers),
    "arriving while others decode": Setting(run=arriving_late),
    "starved of rows": Setting(run=starved),
    "with a cached prefix": Setting(run=twice),
    "without prefix reuse": Setting(run=among_strangers, prefix_cache=False),
    "with chunked prefill": Setting(run=arriving_late, chunk_rows=7),
    "after retraction": Setting(run=among_strangers, tight=True),
    "beside cancelled neighbours": Setting(run=beside_cancelled),
}
