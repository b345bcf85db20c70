"""The books of a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import Runaway, StepState
from omni_host.engines.feedback import Feedback
from omni_host.engines.ledger import Entry, Ledger, Readiness
from omni_host.engines.weights import open_weights
from tests.engines.toy_decoders import STOP, TOYS, ToyProgram, build, drawn, request

TOY = TOYS["frames"]


def ledger_of(program: object | None = None) -> Ledger:
    built = build(TOY, program or ToyProgram(TOY))
    return Ledger(built, device=torch.device("cpu"), dtype=torch.float32)


def opened(ledger: Ledger, **changes: object) -> Entry:
    return ledger.open(replace(request(TOY, "one", rows=6, frames=400), **changes))


def ends_at(frames: list[int], runaway: Runaway) -> int | None:
    """After how many frames the guard ends a request that says this."""
    ledger = ledger_of()
    entry = opened(ledger, runaway=runaway)
    for count, code in enumerate(frames, 1):
        if ledger.record(entry, 10, (code, 1, 1, 1))[1] == "runaway":
            return count
    return None


@pytest.mark.parametrize(
    ("frames", "guard", "ends"),
    [
        ([1] * 30, Runaway(max_period=4, repeats=25), 25),
        ([1, 2] * 30, Runaway(max_period=4, repeats=5), 10),
        ([7, 8, 1, 2, 3] + [1, 2, 3] * 9, Runaway(max_period=4, repeats=5), 17),
        ([1, 2, 3, 4, 5] * 20, Runaway(max_period=4, repeats=5), None),
        ([1, 1, 1, 2] * 3, Runaway(max_period=1, repeats=4), None),
        (list(range(60)), Runaway(), None),
    ],
)
def test_the_guard_ends_what_repeats_itself(
    frames: list[int], guard: Runaway, ends: int | None
) -> None:
    assert ends_at(frames, guard) == ends


def test_a_stop_id_ends_a_request_without_a_frame() -> None:
    ledger = ledger_of()
    entry = opened(ledger)
    assert ledger.record(entry, 10, (1, 2, 3, 4)) == ((1, 2, 3, 4), None)
    assert ledger.record(entry, STOP, (1, 2, 3, 4)) == (None, "stop")
    assert entry.state.frames == 1


def test_the_last_frame_is_given_out_with_its_reason() -> None:
    ledger = ledger_of()
    entry = opened(ledger, max_frames=2)
    assert ledger.record(entry, 10, (1, 2, 3, 4))[1] is None
    assert ledger.record(entry, 11, (1, 2, 3, 4)) == ((1, 2, 3, 4), "length")


def test_the_program_is_asked_once_a_frame_and_again_after_waiting() -> None:
    program = ToyProgram(TOY, starved=True)
    ledger = ledger_of(program)
    entry = opened(ledger)
    asked: list[list[Readiness]] = []
    for _ in range(4):
        ledger.record(entry, 10, (1, 2, 3, 4))
        asked.append([ledger.ask(entry)])
        while asked[-1][-1] is Readiness.WAITING:
            asked[-1].append(ledger.ask(entry))
        ledger.ask(entry)
        entry.feed()
    assert [len(answers) for answers in asked] == [2, 3, 1, 2]
    assert [program.asked["one", frame] for frame in range(1, 5)] == [2, 3, 1, 2]


def test_what_was_fed_can_be_fed_again() -> None:
    ledger = ledger_of()
    weights = open_weights("", device="cpu", dtype=torch.float32, load_format="dummy", seed=0)
    feedback = Feedback(TOY.decoder, TOY.frame, weights)
    entry = opened(ledger)
    fed, places = [], []
    for frame in range(1, 5):
        codes = (frame, 1, 2, 3)
        ledger.record(entry, 10 + frame, codes)
        assert ledger.ask(entry) is Readiness.READY
        places.append(entry.feed())
        added = 0.0 if frame == 3 else drawn(f"one {frame}", 32)
        fed.append(feedback.rows(torch.tensor([10 + frame]), torch.tensor([codes]))[0] + added)
    ledger.record(entry, 20, (9, 9, 9, 9))
    rows = ledger.refill(entry, feedback)
    torch.testing.assert_close(rows, torch.cat((entry.prompt.rows, torch.stack(fed))))
    assert entry.rows == len(rows) == 10
    assert places == [6.0, 7.0, 8.0, 9.0]
    assert ledger.refill_positions(entry).tolist() == [[float(at) for at in range(10)]]


def test_the_program_sees_frames_and_token() -> None:
    seen: list[tuple[int, int]] = []

    class Watching(ToyProgram):
        def next_row(self, state: StepState) -> None:
            seen.append((state.frames, state.token))
            state.data["calls"] = state.data.get("calls", 0) + 1

    ledger = ledger_of(Watching(TOY))
    entry = opened(ledger)
    for token in (11, 12):
        ledger.record(entry, token, (1, 2, 3, 4))
        ledger.ask(entry)
        entry.feed()
    assert seen == [(1, 11), (2, 12)]
    assert entry.state.data == {"calls": 2}
