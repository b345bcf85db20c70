"""The decoder nested in a step: code predictors and fast AR decoders, as data.

One step of the outer decoder gives a hidden state h (after the final norm) and a token.
A frame of Q codes is made of them:

    code[0] = clamp(token - first_code_offset, 0, first_code_size - 1)
    rows    = [project(h), project(inputs[0][code[0]])]        positions 0 and 1
    code[1] = sample(heads[0](decode(rows)[1]))                 the scores of row 0 are dropped
    code[i] = sample(heads[i-1](decode(project(inputs[i-1][code[i-1]]))))   position i

so Q-1 sampled codes in Q-1 passes, the first of them two rows long. The outer decoder's
next row is then

    (token_feedback[token] + sum over i of feedback[i][code[i]]) * feedback_scale + added row

where the added row, if any, is the family's (`Program.next_row`). No family code runs
between passes, so an engine can capture the whole frame as one graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from omni_host.engines.decoder import DecoderSpec, TensorSource
from omni_host.engines.sampling import SamplingPolicy

__all__ = ["FrameSpec", "Projection", "Table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An embedding table of the checkpoint: code c stands in row `offset` + c.

    `size` is how many codes it has; larger ones are an error of the family.
    """

    source: TensorSource
    size: int
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A linear layer: weight [out, in] and, if it has one, bias [out]."""

    weight: TensorSource
    bias: TensorSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSpec:
    """A frame of `codes` codes around each token of the outer decoder.

    Attributes:
        decoder: the nested decoder; `frame_length` == codes, no embedding, no head.
        codes: Q.
        first_code_offset, first_code_size: how the token becomes code 0.
        inputs: Q-1 tables that embed code 0 .. Q-2 for the nested decoder.
        heads: Q-1 matrices [size of code i+1, nested width]; one tensor may appear Q-1 times.
        projection: applied to h and to every embedded code, or None.
        sampling: the policy of the residual codes.
        feedback: Q tables of the outer width, one a code; or fewer: None entries add nothing.
        token_feedback: a table of the outer width indexed by the token itself, or None.
        feedback_scale: multiplies the sum, before the family's row is added.
    """

    decoder: DecoderSpec
    codes: int
    inputs: tuple[Table, ...]
    heads: tuple[TensorSource, ...]
    feedback: tuple[Table | None, ...]
    sampling: SamplingPolicy
    first_code_offset: int = 0
    first_code_size: int
    projection: Projection | None = None
    token_feedback: Table | None = None
    feedback_scale: float = 1.0
