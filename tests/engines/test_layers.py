"""Layers against transformers' own, with the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import MoeMlp, Rope, TensorSource
from omni_host.engines.attention import causal_mask, grouped_attention
from omni_host.engines.decoder_stack import DecoderStack
from omni_host.engines.layers import RotaryTables, moe_mlp, rms_norm, rotate
from omni_host.engines.layouts import transformers_weights
from omni_host.engines.weights import open_weights
from tests.engines.toy_decoders import decoder


def heads(rows: int, dim: int = 16) -> torch.Tensor:
    return torch.randn(rows, 4, dim, generator=torch.Generator().manual_seed(0))


def test_neox_rotation_is_that_of_transformers() -> None:
    modelling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    positions = torch.tensor([[0.0, 3.0, 250.0, 4000.0]])
    cos, sin = RotaryTables(Rope(theta=1e6), 16, "cpu").at(positions)
    given = heads(4)
    doubled = [torch.cat((table, table), -1)[None] for table in (cos, sin)]
    expected, _ = modelling.apply_rotary_pos_emb(
        given.transpose(0, 1)[None], given.transpose(0, 1)[None], *doubled
    )
    torch.testing.assert_close(rotate(given, cos, sin, "neox"), expected[0].transpose(0, 1))


def test_interleaved_rotation_turns_pairs_as_complex_numbers() -> None:
    cos, sin = RotaryTables(Rope(theta=1e4, layout="interleaved"), 16, "cpu").at(
        torch.arange(5.0)[None]
    )
    given = heads(5)
    turned = torch.view_as_complex(given.view(5, 4, 8, 2)) * torch.complex(cos, sin)[:, None]
    expected = torch.view_as_real(turned).flatten(-2)
    torch.testing.assert_close(rotate(given, cos, sin, "interleaved"), expected)


def test_the_layouts_give_the_same_scores_for_permuted_heads() -> None:
    cos, sin = RotaryTables(Rope(theta=1e4), 16, "cpu").at(torch.arange(5.0)[None])
    given = heads(5)
    permuted = given.view(5, 4, 2, 8).transpose(2, 3).reshape(5, 4, 16)
    neox = rotate(given, cos, sin, "neox")
    interleaved = rotate(permuted, cos, sin, "interleaved")
    torch.testing.assert_close(interleaved.view(5, 4, 8, 2).transpose(2, 3).reshape(5, 4, 16), neox)


@pytest.mark.parametrize("interleaved", [True, False])
def test_sections_follow_their_position_rows(*, interleaved: bool) -> None:
    sections = (4, 2, 2)
    rope = Rope(theta=1e4, sections=sections, sections_interleaved=interleaved, fractional=True)
    positions = torch.tensor([[0.0, 6.5, 13.0], [1.0, 2.0, 3.0], [5.0, 7.0, 9.0]])
    cos, _ = RotaryTables(rope, 16, "cpu").at(positions)
    inverse = 1e4 ** (-torch.arange(0, 16, 2) / 16)
    follows = [0, 1, 2, 0, 1, 2, 0, 0] if interleaved else [0, 0, 0, 0, 1, 1, 2, 2]
    expected = torch.stack([(positions[row] * inverse[i]).cos() for i, row in enumerate(follows)])
    torch.testing.assert_close(cos, expected.T)


def test_interleaved_sections_are_those_of_qwen3_omni() -> None:
    modelling = pytest.importorskip("transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe")
    rope = Rope(theta=1e6, sections=(24, 20, 20), sections_interleaved=True, fractional=True)
    positions = torch.rand(3, 7, generator=torch.Generator().manual_seed(1)) * 300
    cos, _ = RotaryTables(rope, 128, "cpu").at(positions)
    inverse = 1.0 / 1e6 ** (torch.arange(0, 128, 2, dtype=torch.float32) / 128)
    angles = positions[:, None, :, None] * inverse
    kind = modelling.Qwen3OmniMoeThinkerTextRotaryEmbedding
    expected = kind.apply_interleaved_mrope(None, angles, [24, 20, 20])
    torch.testing.assert_close(cos, expected[0].cos(), rtol=1e-4, atol=1e-4)


def test_tables_may_be_rounded_to_bfloat16() -> None:
    positions = torch.arange(50.0)[None]
    exact, _ = RotaryTables(Rope(theta=1e4), 16, "cpu").at(positions)
    rounded, _ = RotaryTables(Rope(theta=1e4, table_dtype="bfloat16"), 16, "cpu").at(positions)
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, exact.bfloat16().float())


def test_the_norm_is_that_of_transformers() -> None:
    modelling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    norm = modelling.Qwen3RMSNorm(32, eps=1e-5)
    torch.nn.init.normal_(norm.weight)
    given = torch.randn(7, 32)
    torch.testing.assert_close(rms_norm(given, norm.weight, 1e-5), norm(given))


def gated(
    row: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    return down @ (torch.nn.functional.silu(gate @ row) * (up @ row))


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("shared", [0, 12])
@pytest.mark.parametrize("intermediate", [16, 10])
@pytest.mark.parametrize("width", [32, 27])
def test_experts_equal_a_loop_over_rows(
    *, renormalise: bool, shared: int, intermediate: int, width: int
) -> None:
    moe = MoeMlp(
        experts=6,
        top_k=3,
        intermediate=intermediate,
        renormalise=renormalise,
        shared_intermediate=shared,
        shared_gate=bool(shared),
    )
    weights = open_weights("", device="cpu", dtype=torch.float32, load_format="dummy", seed=0)
    stack = DecoderStack(decoder(mlps=(moe,), width=width), weights)
    sizes = {
        "gate": (intermediate, width),
        "up": (intermediate, width),
        "down": (width, intermediate),
    }
    part = {"gate": (shared, width), "up": (shared, width), "down": (width, shared)}

    def drawn(name: str, *shape: int) -> torch.Tensor:
        full = f"layers.0.{name}"
        return weights.take(TensorSource(name=f"outer.{full}.weight"), shape, full)

    router = drawn("router", 6, width)
    experts = [[drawn(f"experts.{i}.{n}", *sizes[n]) for n in sizes] for i in range(6)]
    rows = torch.randn(9, width)
    expected = []
    for row in rows:
        shares = (router @ row).softmax(0)
        best = shares.topk(3)
        scale = best.values.sum() if renormalise else 1.0
        total = sum(
            share / scale * gated(row, *experts[expert])
            for share, expert in zip(best.values, best.indices.tolist(), strict=True)
        )
        if shared:
            gate = torch.sigmoid(drawn("shared_gate", 1, width) @ row)
            total = total + gate * gated(row, *(drawn(f"shared.{n}", *part[n]) for n in part))
        expected.append(total)
    found = moe_mlp(rows, stack._layers[0].mlp, moe)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 3])
def test_attention_sees_what_the_mask_says(window: int | None) -> None:
    torch.manual_seed(0)
    queries, kept = torch.randn(1, 4, 6, 8), torch.randn(1, 7, 4, 8)
    mask = causal_mask(3, 4, window, torch.device("cpu"))
    found = grouped_attention(queries, kept, mask).view(4, 6, 8)
    for row in range(4):
        last = 3 + row
        first = 0 if window is None else max(0, last - window + 1)
        for head in range(6):
            keys, values = (
                kept[0, first : last + 1, head // 3],
                kept[0, first : last + 1, 2 + head // 3],
            )
            shares = (keys @ queries[0, row, head] / 8**0.5).softmax(0)
            torch.testing.assert_close(found[row, head], shares @ values)


class ModelWeights:
    """The tensors of a transformers model, taken by name."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, model: torch.nn.Module) -> None:
        self._state = model.state_dict()

    def take(self, source: object, shape: tuple[int, ...], name: str) -> torch.Tensor:
        assert tuple(self._state[source.name].shape) == shape, name
        return self._state[source.name]


@pytest.mark.parametrize("window", [None, 5])
def test_a_whole_stack_is_that_of_transformers(window: int | None) -> None:
    transformers = pytest.importorskip("transformers")
    spec = decoder(weights=transformers_weights("model."), norm_eps=1e-6)
    spec = replace(spec, attention=replace(spec.attention, windows=(window, window)))
    config = transformers.Qwen3Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=48,
        vocab_size=40,
        rope_theta=1e4,
        use_sliding_window=window is not None,
        sliding_window=window,
        max_window_layers=0,
    )
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(config).eval()
    rows = torch.randn(11, 32)
    mask = causal_mask(0, 11, window, torch.device("cpu"))

    def attend(layer: int, queries: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return grouped_attention(queries[None], kept[None], mask)

    stack = DecoderStack(spec, ModelWeights(model))
    with torch.inference_mode():
        expected = model.model(inputs_embeds=rows[None], use_cache=False).last_hidden_state[0]
        found, captured = stack.forward(
            rows, stack.rope.at(torch.arange(11.0)[None]), attend, capture=(-1,)
        )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(captured[-1], found)
