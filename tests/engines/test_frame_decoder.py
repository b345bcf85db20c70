"""The nested decoder against the definition of a frame, pass by pass without any cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import FrameSpec, SamplingPolicy, Table, TensorSource, draws
from omni_host.engines.attention import causal_mask, grouped_attention
from omni_host.engines.decoder_stack import DecoderStack
from omni_host.engines.feedback import Feedback
from omni_host.engines.frame_decoder import FrameDecoder
from omni_host.engines.sampler import CutNumbers, plan_for
from omni_host.engines.weights import Weights, open_weights
from tests.engines.toy_decoders import decoder, frame

GREEDY = SamplingPolicy(temperature=0.0)


@pytest.fixture
def weights() -> Weights:
    return open_weights("", device="cpu", dtype=torch.float32, load_format="dummy", seed=3)


def decode(
    spec: FrameSpec,
    weights: Weights,
    hidden: torch.Tensor,
    tokens: torch.Tensor,
    policy: SamplingPolicy,
) -> torch.Tensor:
    bank = Feedback(decoder(), spec, weights).bank
    rows = len(tokens)
    numbers = CutNumbers.empty(rows, "cpu")
    for row in range(rows):
        numbers.put(row, policy)
    with torch.inference_mode():
        return FrameDecoder(spec, 32, bank, weights).decode(
            hidden,
            tokens,
            roots=torch.tensor([draws.roots(seed) for seed in range(rows)]),
            frames=torch.arange(rows),
            numbers=numbers,
            plan=plan_for([policy]),
        )


def table(weights: Weights, it: Table) -> torch.Tensor:
    rows = (it.offset, it.offset + it.size)
    source = TensorSource(name=it.source.name, rows=rows)
    return weights.take(source, (it.size, 32), "embedding")


def by_definition(spec: FrameSpec, weights: Weights, hidden: torch.Tensor, token: int) -> list[int]:
    """Greedy, one request, the whole sequence anew in every pass."""
    stack = DecoderStack(spec.decoder, weights)
    width = spec.decoder.width
    codes = [min(max(token - spec.first_code_offset, 0), spec.first_code_size - 1)]
    rows = [hidden]
    for index, head in enumerate(spec.heads):
        rows.append(table(weights, spec.inputs[index])[codes[-1]])
        given = torch.stack(rows)
        if spec.projection is not None:
            matrix = weights.take(spec.projection.weight, (width, 32), "projection")
            bias = weights.take(spec.projection.bias, (width,), "projection bias")
            given = given @ matrix.T + bias
        mask = causal_mask(0, len(rows), None, torch.device("cpu"))

        def attend(
            layer: int, queries: torch.Tensor, kept: torch.Tensor, mask: torch.Tensor = mask
        ) -> torch.Tensor:
            return grouped_attention(queries[None], kept[None], mask)

        positions = torch.arange(float(len(rows)))[None]
        state, _ = stack.forward(given, stack.rope.at(positions), attend)
        size = (*spec.inputs[1:], spec.feedback[-1])[index].size
        codes.append((weights.take(head, (size, width), "head") @ state[-1]).argmax().item())
    return codes


SPECS = {
    "projected": frame(),
    "of equal width": frame(width=32, codes=3),
    "of many codes": frame(codes=9, size=16),
    "of two codes": frame(codes=2),
    "one table and one head for all": replace(
        frame(width=32),
        inputs=(frame().inputs[0],) * 3,
        heads=(frame().heads[0],) * 3,
        feedback=tuple(
            Table(source=TensorSource(name="fused.embedding"), size=32, offset=32 * code)
            for code in range(4)
        ),
        first_code_offset=10,
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_frame_is_what_its_definition_says(name: str, weights: Weights) -> None:
    spec = SPECS[name]
    hidden = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([0, 3, 17, 31, 35, 39])
    found = decode(spec, weights, hidden, tokens, GREEDY)
    expected = [
        by_definition(spec, weights, row, token)
        for row, token in zip(hidden, tokens.tolist(), strict=True)
    ]
    assert found.tolist() == expected


def test_sampled_frames_do_not_depend_on_the_batch(weights: Weights) -> None:
    spec = frame()
    hidden = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([1, 2, 3, 4, 5])
    together = decode(spec, weights, hidden, tokens, spec.sampling)
    assert len({tuple(row) for row in together.tolist()}) == 5
    for rows in (1, 2, 4):
        part = decode(spec, weights, hidden[:rows], tokens[:rows], spec.sampling)
        assert torch.equal(part, together[:rows])


def test_what_a_frame_feeds_back_is_its_tables_summed_and_scaled(weights: Weights) -> None:
    spec = SPECS["one table and one head for all"]
    outer = Table(source=TensorSource(name="outer.embedding"), size=40)
    tables = (spec.feedback[0], None, *spec.feedback[2:])
    spec = replace(spec, feedback=tables, token_feedback=outer, feedback_scale=0.5)
    feedback = Feedback(decoder(), spec, weights)
    tokens, codes = torch.tensor([4, 39]), torch.tensor([[0, 1, 2, 3], [31, 30, 29, 28]])
    expected = [
        (
            table(weights, outer)[token]
            + sum(table(weights, it)[code] for it, code in zip(tables, row, strict=True) if it)
        )
        * 0.5
        for token, row in zip(tokens.tolist(), codes.tolist(), strict=True)
    ]
    torch.testing.assert_close(feedback.rows(tokens, codes), torch.stack(expected))
