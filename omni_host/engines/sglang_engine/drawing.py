"""From scores and states to frames, and from frames to the rows that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from omni_host.engines.engine import EngineBuild
from omni_host.engines.feedback import Feedback
from omni_host.engines.frame_decoder import FrameDecoder
from omni_host.engines.ledger import Entry
from omni_host.engines.sampler import CutNumbers, plan_for
from omni_host.engines.sampling import SamplingPolicy
from omni_host.engines.token_sampler import TokenSampler
from omni_host.engines.weights import Weights

__all__ = ["Drawing"]


class Drawing:
    """The sampler, the nested frame and the feedback tables, for requests that have places.

    `places` is how many there are: a request's place is its row in SGLang's table.
    """

    def __init__(self, build: EngineBuild, weights: Weights, *, places: int) -> None:
        assert build.decoder.head is not None
        vocabulary, device = build.decoder.head.vocabulary, weights.device
        self._frame = build.frame
        self._device = device
        self._sampler = TokenSampler(build.sampling, vocabulary, places, device)
        ids: list[int] = cast("Any", self._sampler.candidates).tolist()
        self.candidates = tuple(ids) if self._sampler.restricted else None
        """The ids that can be drawn, ascending; None where that is all of them."""
        self.feedback = Feedback(build.decoder, build.frame, weights)
        self._residual = CutNumbers.empty(places, device)
        self._decoder = None
        if build.frame is not None:
            width = build.decoder.width
            self._decoder = FrameDecoder(build.frame, width, self.feedback.bank, weights)

    def admit(self, entry: Entry, place: int) -> None:
        """Set a place up for a request, which may have produced frames before."""
        request = entry.request
        self._sampler.admit(
            place,
            request.sampling,
            seed=request.seed,
            min_tokens=request.min_frames,
            ignore_stop=request.ignore_stop,
            history=entry.prompt.history,
            tokens=entry.tokens,
        )
        if self._frame is not None:
            self._residual.put(place, self._residual_policy(entry))

    def draw(
        self, entries: Sequence[Entry], places: Tensor, scores: Tensor, hidden: Tensor
    ) -> list[list[int]]:
        """One frame a request: its token, then its codes.

        Scores are [B, C] over `candidates`, hidden the states after the final norm
        [B, width], places int64 [B]. The device is read once.
        """
        frames = torch.tensor([len(entry.tokens) for entry in entries], device=self._device)
        plan = plan_for(entry.request.sampling for entry in entries)
        tokens = self._sampler.choose(scores, places, frames, plan)
        codes = tokens[:, None]
        if self._decoder is not None:
            codes = self._decoder.decode(
                hidden,
                tokens,
                roots=self._sampler.roots(places),
                frames=frames,
                numbers=self._residual.take(places),
                plan=plan_for(map(self._residual_policy, entries)),
            )
        return cast("Any", torch.cat((tokens[:, None], codes), dim=1)).tolist()

    def next_rows(self, entries: Sequence[Entry], added: Tensor) -> Tensor:
        """What each request feeds next, [B, width]: its latest frame's row plus `added`."""
        tokens = torch.tensor([entry.tokens[-1] for entry in entries], device=self._device)
        codes = torch.tensor([entry.codes[-1] for entry in entries], device=self._device)
        return self.feedback.rows(tokens, codes) + added

    def _residual_policy(self, entry: Entry) -> SamplingPolicy:
        assert self._frame is not None
        return entry.request.residual_sampling or self._frame.sampling
