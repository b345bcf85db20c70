"""Prompts as engines use them: checked, on the device, with positions in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from omni_host.engines.decoder import DecoderSpec
from omni_host.engines.program import Injection, Prompt
from omni_host.errors import InvalidRequestError

__all__ = ["PreparedPrompt", "RowKey", "prepare"]

RowKey = tuple[float, ...]
"""A row's content key and its positions: rows with equal ones, after equal rows, are equal."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPrompt:
    """A checked prompt.

    Attributes:
        rows: [L, width] on the device in the engine's dtype.
        positions: float32 [P, L]; P is 3 where the decoder has sections, else 1.
        next_position: of the first generated row.
        keys: one a row, or None.
        inject: as given, on the device.
        wanted: prompt rows, as given.
        history: as given.
    """

    rows: Tensor
    positions: Tensor
    next_position: float
    keys: tuple[RowKey, ...] | None
    inject: tuple[Injection, ...]
    wanted: tuple[int, ...]
    history: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.rows)


def prepare(
    prompt: Prompt, spec: DecoderSpec, *, device: torch.device, dtype: torch.dtype
) -> PreparedPrompt:
    """Check a prompt against the decoder and bring it to the device.

    Raises InvalidRequestError that names the field.
    """
    if prompt.rows.dim() != 2 or not len(prompt.rows) or prompt.rows.shape[1] != spec.width:
        raise InvalidRequestError(
            f"prompt rows are {list(prompt.rows.shape)}: the decoder takes [L, {spec.width}], "
            "at least one",
            field="prompt.rows",
        )
    length = len(prompt.rows)
    positions = _positions(prompt, spec, length, device)
    after = prompt.next_position
    return PreparedPrompt(
        rows=prompt.rows.to(device=device, dtype=dtype),
        positions=positions,
        next_position=positions.max().item() + 1 if after is None else after,
        keys=_keys(prompt, positions, length),
        inject=tuple(_inject(part, spec, length, device, dtype) for part in prompt.inject),
        wanted=_wanted(prompt, spec, length),
        history=prompt.history,
    )


def _positions(prompt: Prompt, spec: DecoderSpec, length: int, device: torch.device) -> Tensor:
    if prompt.positions is None:
        positions = torch.arange(length, dtype=torch.float32, device=device)[None]
    else:
        positions = prompt.positions.to(device=device, dtype=torch.float32)
        positions = positions[None] if positions.dim() == 1 else positions
    lines = 3 if spec.rope.sections else 1
    if positions.dim() != 2 or positions.shape[1] != length or len(positions) not in {1, lines}:
        raise InvalidRequestError(
            f"positions are {list(positions.shape)}: {length} rows need [{length}]"
            + (f" or [3, {length}]" if lines == 3 else ""),
            field="prompt.positions",
        )
    return positions.expand(lines, -1).contiguous()


def _keys(prompt: Prompt, positions: Tensor, length: int) -> tuple[RowKey, ...] | None:
    if prompt.keys is None:
        return None
    if len(prompt.keys) != length:
        raise InvalidRequestError(
            f"{len(prompt.keys)} keys for {length} prompt rows", field="prompt.keys"
        )
    places: list[list[float]] = cast("Any", positions.T).tolist()
    return tuple((key, *place) for key, place in zip(prompt.keys, places, strict=True))


def _inject(
    part: Injection, spec: DecoderSpec, length: int, device: torch.device, dtype: torch.dtype
) -> Injection:
    at = part.at.to(device=device, dtype=torch.int64)
    if part.layer not in spec.inject_after:
        raise InvalidRequestError(
            f"rows to inject after layer {part.layer}: the decoder takes them after layers "
            f"{list(spec.inject_after)}",
            field="prompt.inject",
        )
    inside = at.dim() == 1 and (not len(at) or bool(at.min() >= 0 and at.max() < length))
    if not inside or part.rows.shape != (len(at), spec.width):
        raise InvalidRequestError(
            f"rows to inject are {list(part.rows.shape)} at {list(at.shape)} of {length} rows: "
            f"they need [n, {spec.width}] at [n]",
            field="prompt.inject",
        )
    return Injection(layer=part.layer, at=at, rows=part.rows.to(device=device, dtype=dtype))


def _wanted(prompt: Prompt, spec: DecoderSpec, length: int) -> tuple[int, ...]:
    wanted: list[int] = [] if prompt.wanted is None else cast("Any", prompt.wanted).tolist()
    if wanted and not spec.capture:
        raise InvalidRequestError(
            "states are wanted, but the decoder captures none", field="prompt.wanted"
        )
    if any(not 0 <= row < length for row in wanted):
        raise InvalidRequestError(
            f"wanted rows reach beyond the {length} prompt rows", field="prompt.wanted"
        )
    return tuple(wanted)
