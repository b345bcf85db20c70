"""What a family adds to its specs: two small functions, run between steps.

`Program.prompt` turns a request into rows, and `Program.next_row` gives the row that is
added to each next input. Both run in the stage's process, on the engine's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Injection", "Program", "Prompt", "Signal", "StepState"]


class Signal(Enum):
    """What `next_row` may answer instead of a row."""

    WAIT = "wait"
    """There is nothing to add yet: sit out this step and keep the KV cache. Feeding padding
    early would change the speech."""

    END = "end"
    """The request is finished, whatever the scores say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Rows added to the residual leaving `layer`: `rows` [n, width] at prompt rows `at` [n]."""

    layer: int
    at: Tensor
    rows: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt of one request.

    Attributes:
        rows: [L, width], what enters the first layer.
        keys: one integer a row, equal only for rows of equal content (injections included);
            by them a cached prefix is found. They enter neither penalties nor embeddings.
            None keeps the request out of prefix reuse.
        positions: [L] or [3, L]; None means 0 .. L-1. Prefix reuse compares them too.
        next_position: the position of the first generated row; each later one is one more.
            None means the largest position plus one.
        inject: rows to add after layers of the spec's `inject_after`.
        wanted: prompt rows [n] whose captured states are returned; such rows are computed
            even where a cached prefix covers them, unless their states are cached with it.
        history: tokens that count as already generated for penalties, oldest first.
    """

    rows: Tensor
    keys: Sequence[int] | None = None
    positions: Tensor | None = None
    next_position: float | None = None
    inject: tuple[Injection, ...] = ()
    wanted: Tensor | None = None
    history: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class StepState:
    """What `next_row` may look at; the engine owns and updates it.

    Attributes:
        request: what was submitted.
        frames: how many frames (tokens, without a nested frame) have been produced.
        token: the latest token.
        data: the program's own, empty at first.
    """

    request: Any
    frames: int = 0
    token: int = -1
    data: dict[str, Any] = field(default_factory=dict[str, Any])


class Program(Protocol):
    """A family's side of a step."""

    def prompt(self, request: Any) -> Prompt:
        """Called once, before the request's prefill."""
        ...

    def next_row(self, state: StepState) -> Tensor | Signal | None:
        """The row [width] to add to the next input; None adds nothing.

        Called once for each produced frame before the next step, and again every step
        after it answered WAIT. It must be cheap and must not wait.
        """
        ...
