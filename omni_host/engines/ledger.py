"""The books of a request, the same for every engine.

An `Entry` knows what was asked, what was produced and what was fed, so an engine can throw
a request's cache away and build it again; a `Ledger` opens entries and closes frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor

from omni_host.engines.engine import (
    DecodeRequest,
    EngineBuild,
    FinishReason,
    Runaway,
    StepOutput,
)
from omni_host.engines.feedback import Feedback
from omni_host.engines.program import Prompt, Signal, StepState
from omni_host.engines.prompts import PreparedPrompt, prepare
from omni_host.engines.sampler import check_numbers
from omni_host.errors import InvalidRequestError, OmniError, StageFailedError

__all__ = ["Entry", "Ledger", "Readiness"]


class Readiness(Enum):
    """Whether a request that has decoded its latest frame can take the next step."""

    READY = "ready"
    WAITING = "waiting"
    ENDED = "ended"


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """One request inside an engine.

    Attributes:
        request, prompt: what was asked.
        order: arrivals are counted; the youngest has the largest.
        state: what the program sees.
        tokens, codes: all that was produced, oldest first; one each a frame.
        added: what the program added to the fed rows, oldest first: row n was made of
            frame n and added[n].
        pending: what it adds to the next row, once it has said so (`answered`).
        prefilled: whether the first frame has been decoded.
        error: why the program cannot go on, if it raised.
    """

    request: DecodeRequest
    prompt: PreparedPrompt
    order: int
    state: StepState
    tokens: list[int] = field(default_factory=list[int])
    codes: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    added: list[Tensor | None] = field(default_factory=list["Tensor | None"])
    pending: Tensor | None = None
    answered: bool = False
    waiting: bool = False
    error: OmniError | None = None
    loops: list[int] = field(default_factory=list[int])

    @property
    def prefilled(self) -> bool:
        return bool(self.tokens)

    @property
    def rows(self) -> int:
        """Rows that the cache holds once everything fed so far is in it."""
        return self.prompt.length + len(self.added)

    @property
    def most_rows(self) -> int:
        """Rows that it may come to need: the last frame is not fed."""
        return self.prompt.length + self.request.max_frames - 1

    def ended(self) -> StepOutput:
        """What to say of a request that its program has ended."""
        finished: FinishReason = "end" if self.error is None else "failed"
        return StepOutput(id=self.request.id, finished=finished, error=self.error)

    def feed(self) -> float:
        """Take the pending row as fed; the position at which it stands."""
        self.added.append(self.pending)
        self.pending = None
        self.answered = False
        return self.prompt.next_position + len(self.added) - 1


class Ledger:
    """Opens entries, asks the program, and decides when a request ends."""

    def __init__(self, build: EngineBuild, *, device: torch.device, dtype: torch.dtype) -> None:
        self._build = build
        self._device = device
        self._dtype = dtype
        self._arrivals = 0
        self._stop = frozenset(build.sampling.stop)

    def open(self, request: DecodeRequest) -> Entry:
        """Check a request and ask the program for its prompt.

        Raises InvalidRequestError that names the field.
        """
        self._check(request)
        prompt: Prompt = self._build.program.prompt(request.request)
        prepared = prepare(prompt, self._build.decoder, device=self._device, dtype=self._dtype)
        limit = self._build.decoder.max_positions
        if prepared.length + request.max_frames - 1 > limit:
            raise InvalidRequestError(
                f"{prepared.length} prompt rows and {request.max_frames} frames are more than "
                f"the {limit} rows of the decoder",
                field="max_frames",
            )
        self._arrivals += 1
        loops = [0] * (request.runaway.max_period if request.runaway else 0)
        state = StepState(request=request.request)
        return Entry(
            request=request, prompt=prepared, order=self._arrivals, state=state, loops=loops
        )

    def _check(self, request: DecodeRequest) -> None:
        if request.max_frames < 1:
            raise InvalidRequestError("max_frames must be at least 1", field="max_frames")
        if request.min_frames < 0:
            raise InvalidRequestError("min_frames must not be negative", field="min_frames")
        if request.runaway and min(request.runaway.max_period, request.runaway.repeats - 1) < 1:
            raise InvalidRequestError(
                "a runaway guard needs periods of at least 1 frame and 2 repeats",
                field="runaway",
            )
        check_numbers(request.sampling, self._build.sampling, "sampling")
        if request.residual_sampling is None:
            return
        if self._build.frame is None:
            raise InvalidRequestError(
                "this decoder has no residual codes to sample", field="residual_sampling"
            )
        check_numbers(request.residual_sampling, self._build.frame.sampling, "residual_sampling")

    def ask(self, entry: Entry) -> Readiness:
        """Ask the program for the row to add, unless it has answered for this frame.

        A program that raises ends its own request and no other: `Entry.ended` says how.
        """
        if entry.answered:
            return Readiness.READY
        try:
            answer = self._build.program.next_row(entry.state)
        except OmniError as error:
            entry.error = error
            return Readiness.ENDED
        except Exception as error:  # noqa: BLE001 - the border to a family's code
            said = f"{type(error).__name__}: {error}"
            entry.error = StageFailedError(f"next_row failed for {entry.request.id!r}: {said}")
            return Readiness.ENDED
        entry.waiting = answer is Signal.WAIT
        if isinstance(answer, Signal):
            return Readiness.WAITING if entry.waiting else Readiness.ENDED
        shape = getattr(answer, "shape", type(answer).__name__)
        if answer is not None and shape != (self._build.decoder.width,):
            entry.error = StageFailedError(
                f"next_row gave a row of shape {shape} for request "
                f"{entry.request.id!r}: the decoder is {self._build.decoder.width} wide"
            )
            return Readiness.ENDED
        entry.pending = answer
        entry.answered = True
        return Readiness.READY

    def record(
        self, entry: Entry, token: int, codes: Sequence[int]
    ) -> tuple[tuple[int, ...] | None, FinishReason | None]:
        """Close a frame: what it gives out, and whether the request ends with it."""
        entry.state.token = token
        if token in self._stop:
            return None, "stop"
        frame = tuple(codes)
        entry.tokens.append(token)
        entry.codes.append(frame)
        entry.state.frames = len(entry.tokens)
        if len(entry.tokens) >= entry.request.max_frames:
            return frame, "length"
        if entry.request.runaway and _runs_away(entry, entry.request.runaway):
            return frame, "runaway"
        return frame, None

    def refill(self, entry: Entry, feedback: Feedback) -> Tensor:
        """Every row that the cache held, [rows, width]: the prompt's and those fed since."""
        fed = len(entry.added)
        if not fed:
            return entry.prompt.rows
        rows = self.feedback(entry, feedback, slice(0, fed))
        return torch.cat((entry.prompt.rows, rows + self.stack_added(entry.added)))

    def refill_positions(self, entry: Entry) -> Tensor:
        """Where those rows stand, float32 [P, rows]."""
        positions = entry.prompt.positions
        fed = torch.arange(len(entry.added), dtype=torch.float32, device=self._device)
        fed = (fed + entry.prompt.next_position).expand(len(positions), -1)
        return torch.cat((positions, fed), dim=1)

    def feedback(self, entry: Entry, feedback: Feedback, frames: slice) -> Tensor:
        """The frames' own part of the rows that follow them, [n, width]."""
        tokens = torch.tensor(entry.tokens[frames], device=self._device)
        codes = torch.tensor(entry.codes[frames], device=self._device)
        return feedback.rows(tokens, codes)

    def stack_added(self, added: Sequence[Tensor | None]) -> Tensor:
        """What programs add, None as zeros: [n, width]."""
        nothing = torch.zeros(self._build.decoder.width, device=self._device, dtype=self._dtype)
        rows = [nothing if row is None else row for row in added]
        return torch.stack(rows).to(device=self._device, dtype=self._dtype)


def _runs_away(entry: Entry, guard: Runaway) -> bool:
    """Update, for each period, how many of the latest frames equal the one a period before."""
    away = False
    for period in range(1, len(entry.loops) + 1):
        same = len(entry.codes) > period and entry.codes[-1] == entry.codes[-1 - period]
        entry.loops[period - 1] = entry.loops[period - 1] + 1 if same else 0
        away = away or entry.loops[period - 1] >= period * (guard.repeats - 1)
    return away
