"""The whole step on the device: outer decoder, sampling, nested frame, next row.

Everything that belongs to a request stands in tensors by slot, so a decode step takes
nothing but the slots, the frame counts and the programs' rows, looks at nothing on the
device, and has one result to copy back. It can be captured as it is, one graph for each
(batch, pages, plans, capture).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from omni_host.engines.attention import grouped_attention
from omni_host.engines.decoder import DecoderSpec, Head
from omni_host.engines.decoder_stack import DecoderStack
from omni_host.engines.engine import EngineBuild
from omni_host.engines.feedback import Feedback
from omni_host.engines.frame_decoder import FrameDecoder
from omni_host.engines.ledger import Entry, Ledger
from omni_host.engines.sampler import CutNumbers, SamplingPlan
from omni_host.engines.spec_checks import check_decoder
from omni_host.engines.token_sampler import TokenSampler
from omni_host.engines.torch_engine.arguments import TorchArguments
from omni_host.engines.torch_engine.kv_cache import KvCache
from omni_host.engines.torch_engine.prefill import PrefillAttention, injections, spans_of
from omni_host.engines.torch_engine.tenant import Chunk, Tenant
from omni_host.engines.weights import DecoderWeights, Weights
from omni_host.errors import ConfigError

__all__ = ["Captured", "Plans", "SlotState", "TorchModel"]

Captured = dict[int, Tensor]
"""Layer -> states of the batch's rows, [N, width]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """How a batch samples its tokens and its residual codes."""

    token: SamplingPlan
    residual: SamplingPlan


@dataclass(slots=True, kw_only=True)
class SlotState:
    """What a step needs to know of each slot, on the device.

    Attributes:
        next_rows: [slots, width], the latest frame's part of the next row.
        prompt_rows: int64 [slots], the length of the prompt.
        next_position: float32 [slots], where the first generated row stands.
        pages: int64 [slots, most pages], the cache pages in order.
        residual: the numbers of the nested frame's policy.
    """

    next_rows: Tensor
    prompt_rows: Tensor
    next_position: Tensor
    pages: Tensor
    residual: CutNumbers = field(repr=False)

    @classmethod
    def empty(
        cls, slots: int, pages: int, width: int, *, scratch: int, weights: Weights
    ) -> SlotState:
        device = weights.device
        return cls(
            next_rows=torch.zeros(slots, width, device=device, dtype=weights.dtype),
            prompt_rows=torch.zeros(slots, dtype=torch.int64, device=device),
            next_position=torch.zeros(slots, device=device),
            pages=torch.full((slots, pages), scratch, dtype=torch.int64, device=device),
            residual=CutNumbers.empty(slots, device),
        )


class TorchModel:
    """The decoders of one engine, with the state of its slots.

    The last slot is scratch: padding goes there.
    """

    def __init__(self, build: EngineBuild, weights: Weights, arguments: TorchArguments) -> None:
        """Load the weights, then give the cache what memory is left."""
        head = _head_of(build.decoder)
        self.spec = build.decoder
        self._build = build
        self._device = weights.device
        self._stack = DecoderStack(build.decoder, weights)
        self.feedback = Feedback(build.decoder, build.frame, weights)
        self._frame = None
        if build.frame is not None:
            width = build.decoder.width
            self._frame = FrameDecoder(build.frame, width, self.feedback.bank, weights)
        slots = arguments.max_running + 1
        self.scratch_slot = arguments.max_running
        self.sampler = TokenSampler(build.sampling, head.vocabulary, slots, weights.device)
        self._head = _load_head(build.decoder, head, weights, self.sampler)
        self._windows = build.decoder.attention.windows or (None,) * build.decoder.layers
        self._cache = KvCache.within_memory(build.decoder, arguments, weights)
        self.pages = self._cache.scratch
        self.slots = SlotState.empty(
            slots, self.most_pages, build.decoder.width, scratch=self.pages, weights=weights
        )

    @property
    def most_pages(self) -> int:
        """Pages that one request can have."""
        return min(self.pages, -(-self.spec.max_positions // self._cache.page_size))

    def admit(self, entry: Entry, slot: int, ledger: Ledger) -> None:
        """Write a request's numbers into its slot."""
        request = entry.request
        self.sampler.admit(
            slot,
            request.sampling,
            seed=request.seed,
            min_tokens=request.min_frames,
            ignore_stop=request.ignore_stop,
            history=entry.prompt.history,
            tokens=entry.tokens,
        )
        if self._build.frame is not None:
            policy = request.residual_sampling or self._build.frame.sampling
            self.slots.residual.put(slot, policy)
        self.slots.prompt_rows[slot] = entry.prompt.length
        self.slots.next_position[slot] = entry.prompt.next_position
        if entry.prefilled:
            last = slice(len(entry.tokens) - 1, None)
            self.slots.next_rows[slot] = ledger.feedback(entry, self.feedback, last)[0]

    def set_pages(self, slot: int, first: int, pages: Sequence[int]) -> None:
        """Enter a slot's pages from index `first` on."""
        entered = torch.tensor(pages, dtype=torch.int64)
        self.slots.pages[slot, first : first + len(pages)] = entered.to(self._device)

    def decode(
        self, index: Tensor, added: Tensor, *, pages: int, plans: Plans, capture: Sequence[int]
    ) -> tuple[Tensor, Captured]:
        """One decode step.

        Args:
            index: int64 [2, B], the slots and how many frames each has produced.
            added: [B, width], what the programs add to the next rows.
            pages: how many pages the longest request has, or more.
            plans, capture: known on the host.

        Returns: what `emit` returns, and the captured states of the fed rows.
        """
        slots, frames = index
        rows = self.slots.next_rows[slots] + added
        at = self.slots.prompt_rows[slots] + frames - 1
        positions = self.slots.next_position[slots] + (frames - 1)
        table = self.slots.pages[slots, :pages]
        size = self._cache.page_size
        written = table.gather(1, (at // size)[:, None])[:, 0] * size + at % size
        masks = self._decode_masks(at, pages * size)

        def attend(layer: int, queries: Tensor, keys_values: Tensor) -> Tensor:
            self._cache.write(layer, written, keys_values)
            kept = self._cache.read(layer, table)
            return grouped_attention(queries[:, None], kept, masks[self._windows[layer]])

        rotary = self._stack.rope.at(positions[None])
        state, captured = self._stack.forward(rows, rotary, attend, capture=capture)
        return self.emit(state, slots, frames, plans), captured

    def _decode_masks(self, at: Tensor, rows: int) -> dict[int | None, Tensor]:
        keys = torch.arange(rows, device=self._device)[None]
        seen = keys <= at[:, None]
        masks: dict[int | None, Tensor] = {}
        for window in set(self._windows):
            kept = seen if window is None else seen & (keys > at[:, None] - window)
            masks[window] = kept[:, None]
        return masks

    def prefill(
        self, chunks: Sequence[Chunk], *, capture: Sequence[int]
    ) -> tuple[Tensor, list[Captured]]:
        """Bring chunks into the cache: the states [rows of all chunks, width] after the final
        norm, and what was captured, by chunk."""
        spans = spans_of(chunks)
        rows = torch.cat([chunk.tenant.rows[chunk.start : chunk.stop] for chunk in chunks])
        positions = torch.cat(
            [chunk.tenant.positions[:, chunk.start : chunk.stop] for chunk in chunks], dim=1
        )
        attend = PrefillAttention(chunks, spans, self._cache, self._windows, self._device)
        state, captured = self._stack.forward(
            rows,
            self._stack.rope.at(positions),
            attend,
            inject=injections(chunks, spans),
            capture=capture,
        )
        by_chunk = [{layer: captured[layer][span] for layer in captured} for span in spans]
        return state, by_chunk

    def emit(self, state: Tensor, slots: Tensor, frames: Tensor, plans: Plans) -> Tensor:
        """From states after the final norm [B, width] to tokens and codes, int64 [B, 1 + Q].

        Without a nested frame, the token alone: [B, 1]. The frame's part of the next row
        goes to the slot.
        """
        scores = functional.linear(state, self._head)
        tokens = self.sampler.choose(scores, slots, frames, plans.token)
        codes = tokens[:, None]
        produced = codes
        if self._frame is not None:
            codes = self._frame.decode(
                state,
                tokens,
                roots=self.sampler.roots(slots),
                frames=frames,
                numbers=self.slots.residual.take(slots),
                plan=plans.residual,
            )
            produced = torch.cat((tokens[:, None], codes), dim=1)
        self.slots.next_rows[slots] = self.feedback.rows(tokens, codes)
        return produced


def _head_of(spec: DecoderSpec) -> Head:
    check_decoder(spec, field="decoder")
    if spec.head is None:
        raise ConfigError("the outer decoder needs a head of its own", field="decoder.head")
    if spec.frame_length:
        raise ConfigError(
            "the outer decoder's cache grows with the request: frame_length must be 0",
            field="decoder.frame_length",
        )
    return spec.head


def _load_head(spec: DecoderSpec, head: Head, weights: Weights, sampler: TokenSampler) -> Tensor:
    """The head's rows of the ids that may be chosen, [C, width]."""
    named = DecoderWeights(weights=weights, names=spec.weights)
    if head.tied:
        loaded = named.take("embedding", (spec.vocabulary, spec.width))[: head.vocabulary]
    else:
        loaded = named.take("head", (head.vocabulary, spec.width))
    return loaded[sampler.candidates] if sampler.restricted else loaded


def added_rows(tenants: Sequence[Tenant], ledger: Ledger, batch: int) -> Tensor:
    """What the programs add to the next rows, padded to [batch, width]."""
    pending = [tenant.entry.pending for tenant in tenants]
    return ledger.stack_added([*pending, *([None] * (batch - len(pending)))])
