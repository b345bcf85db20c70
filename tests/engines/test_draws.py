"""The hash behind all draws: what the docstring says, uniform, and free of any batch."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import draws

WORD = 0xFFFFFFFF


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D & WORD
    x ^= x >> 15
    x = x * 0x846CA68B & WORD
    return x ^ x >> 16


def gumbel(seed: int, frame: int, codebook: int, draw: int, id_: int) -> float:
    """The definition, word by word, in Python's integers."""
    key = [
        mix(mix(mix(mix(lane ^ seed & WORD) ^ seed >> 32 & WORD) ^ frame) ^ (codebook << 16 | draw))
        for lane in (0x243F6A88, 0x85A308D3)
    ]
    word = mix(mix(id_ + 0x9E3779B9 & WORD) ^ key[0]) ^ key[1]
    v = min((word + 0.5) / 2**32, 1 - 2**-24)
    return -math.log(-math.log1p(-v))


def noise(seed: int, frame: int, codebook: int, draw: int, ids: int) -> torch.Tensor:
    keys = draws.keys(
        torch.tensor([draws.roots(seed)]),
        torch.tensor([frame]),
        torch.tensor([codebook << 16 | draw]),
    )
    return draws.gumbel(keys, draws.spread_ids(torch.arange(ids)))[0, 0]


@pytest.mark.parametrize("seed", [0, 1, 2**31 + 7, 2**63 + 12345, -3])
@pytest.mark.parametrize(("frame", "codebook", "draw"), [(0, 0, 0), (77, 0, 1), (4095, 15, 0)])
def test_the_noise_is_the_documented_function(
    seed: int, frame: int, codebook: int, draw: int
) -> None:
    expected = [gumbel(seed, frame, codebook, draw, id_) for id_ in range(50)]
    torch.testing.assert_close(
        noise(seed, frame, codebook, draw, 50), torch.tensor(expected), rtol=1e-5, atol=1e-5
    )


def test_the_noise_is_finite_and_gumbel_distributed() -> None:
    drawn = noise(3, 0, 0, 0, 400_000)
    assert drawn.isfinite().all()
    assert drawn.mean().item() == pytest.approx(0.57722, abs=0.01)
    assert drawn.var().item() == pytest.approx(math.pi**2 / 6, abs=0.02)


def test_every_coordinate_matters() -> None:
    base = noise(1, 2, 3, 0, 64)
    for other in ((2, 2, 3, 0), (1, 3, 3, 0), (1, 2, 4, 0), (1, 2, 3, 1), (1 + 2**32, 2, 3, 0)):
        drawn = noise(*other, 64)
        assert not torch.equal(base, drawn)
        assert abs(torch.corrcoef(torch.stack((base, drawn)))[0, 1].item()) < 0.5


def test_rows_of_a_batch_draw_what_they_draw_alone() -> None:
    roots = torch.tensor([draws.roots(seed) for seed in range(16)])
    frames = torch.arange(16)
    spread = draws.spread_ids(torch.arange(40))
    streams = torch.tensor([0, 1 << 16])
    together = draws.gumbel(draws.keys(roots, frames, streams), spread)
    for row in range(16):
        alone = draws.keys(roots[row : row + 1], frames[row : row + 1], streams)
        torch.testing.assert_close(draws.gumbel(alone, spread)[0], together[row])
