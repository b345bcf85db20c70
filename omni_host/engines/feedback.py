"""What a produced frame contributes to the outer decoder's next row."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines.decoder import DecoderSpec
from omni_host.engines.frame import FrameSpec
from omni_host.engines.tables import TableBank, load_table
from omni_host.engines.weights import DecoderWeights, Weights
from omni_host.errors import ConfigError

__all__ = ["Feedback"]


class Feedback:
    """The frame's own part of the next row, before the program's row is added.

    Without a nested frame it is the token's embedding.
    """

    def __init__(self, decoder: DecoderSpec, frame: FrameSpec | None, weights: Weights) -> None:
        self.width = decoder.width
        self.scale = 1.0
        self._tokens: Tensor | None = None
        self._columns: Tensor | None = None
        self.bank = TableBank((), decoder.width, weights)
        if frame is None:
            self._tokens = _embedding(decoder, weights)
            return
        self.scale = frame.feedback_scale
        if frame.token_feedback is not None:
            name = "token feedback embedding"
            self._tokens = load_table(frame.token_feedback, decoder.width, weights, name)
        fed = [(code, table) for code, table in enumerate(frame.feedback) if table is not None]
        tables = (*frame.inputs, *(table for _, table in fed))
        self.bank = TableBank(tables, decoder.width, weights)
        if fed:
            device = weights.device
            self._columns = torch.tensor([code for code, _ in fed], device=device)
            starts = [self.bank.start(table) for _, table in fed]
            self._starts = torch.tensor(starts, device=device)

    def rows(self, tokens: Tensor, codes: Tensor) -> Tensor:
        """Tokens int64 [N] and codes int64 [N, Q] -> [N, width]."""
        total: Tensor | None = None
        if self._tokens is not None:
            total = functional.embedding(tokens, self._tokens)
        if self._columns is not None:
            summed = self.bank.embed(codes[:, self._columns], self._starts).sum(1)
            total = summed if total is None else total + summed
        assert total is not None
        return total if self.scale == 1.0 else total * self.scale


def _embedding(decoder: DecoderSpec, weights: Weights) -> Tensor:
    if not decoder.vocabulary:
        raise ConfigError(
            "a decoder without a nested frame needs an embedding of its own: vocabulary is 0",
            field="vocabulary",
        )
    named = DecoderWeights(weights=weights, names=decoder.weights)
    return named.take("embedding", (decoder.vocabulary, decoder.width))
