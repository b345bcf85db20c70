"""Weights from files: one or many, whole or in part, and what is said when they are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

from omni_host.engines import TensorSource, WeightMap
from omni_host.engines.weights import DecoderWeights, Weights, open_weights
from omni_host.errors import StageStartError

TENSORS = {
    "a": torch.arange(12.0).view(4, 3),
    "b": torch.arange(6.0).bfloat16(),
    "c": torch.arange(6.0).half().view(2, 3),
    "ids": torch.arange(4),
}


def opened(folder: Path | str, dtype: torch.dtype = torch.float32) -> Weights:
    return open_weights(str(folder), device="cpu", dtype=dtype, load_format="safetensors", seed=0)


def source(name: str, rows: tuple[int, int] | None = None) -> TensorSource:
    return TensorSource(name=name, rows=rows)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    safetensors_torch.save_file(TENSORS, tmp_path / "model.safetensors")
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    for name, tensor in TENSORS.items():
        safetensors_torch.save_file({name: tensor}, tmp_path / f"part-{name}.safetensors")
    placed = {name: f"part-{name}.safetensors" for name in TENSORS}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    return tmp_path


@pytest.mark.parametrize("layout", ["single", "sharded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_are_read_and_cast(
    layout: str, dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    weights = opened(request.getfixturevalue(layout), dtype)
    for name in ("a", "b", "c"):
        found = weights.take(source(name), tuple(TENSORS[name].shape), name)
        assert found.dtype == dtype
        assert torch.equal(found, TENSORS[name].to(dtype))
    assert torch.equal(
        weights.take(source("a", (1, 3)), (2, 3), "part"), TENSORS["a"][1:3].to(dtype)
    )


def test_only_shards_that_are_needed_are_opened(sharded: Path) -> None:
    (sharded / "part-b.safetensors").write_bytes(b"not a file of tensors")
    assert torch.equal(opened(sharded).take(source("a"), (4, 3), "a"), TENSORS["a"])


def test_a_tensor_taken_twice_is_one(single: Path) -> None:
    weights = opened(single)
    first = weights.take(source("a"), (4, 3), "embedding")
    assert weights.take(source("a"), (4, 3), "head") is first


@pytest.mark.parametrize(
    ("wanted", "shape", "said"),
    [
        (source("absent"), (1,), "no tensor 'absent' (the norm)"),
        (source("a"), (3, 4), "'a' in {folder}/model.safetensors is [4, 3]: the norm needs [3, 4]"),
        (source("a", (2, 6)), (4, 3), "in rows 2 to 6"),
        (source("ids"), (4,), "stored as I64"),
    ],
)
def test_what_is_wrong_with_a_tensor_is_named(
    single: Path, wanted: TensorSource, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(StageStartError) as failed:
        opened(single).take(wanted, shape, "the norm")
    assert said.format(folder=single) in failed.value.message


def test_what_is_wrong_with_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageStartError, match="is no folder"):
        opened(tmp_path / "absent")
    with pytest.raises(StageStartError, match="has neither"):
        opened(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(StageStartError, match="is no safetensors file"):
        opened(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text("{}")
    with pytest.raises(StageStartError, match="is no index"):
        opened(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(StageStartError, match=r"not there: gone\.safetensors"):
        opened(tmp_path)


def test_an_index_that_lies_is_named(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "part-b.safetensors"}}))
    with pytest.raises(StageStartError, match=r"part-b\.safetensors has no tensor 'a'"):
        opened(sharded).take(source("a"), (4, 3), "a")


def test_names_are_filled_in_and_gaps_in_the_map_are_named(single: Path) -> None:
    names = WeightMap(
        sources={"layers.{layer}.q": source("a", (0, 2)), "layers.{layer}.k": source("k{layer}")}
    )
    weights = DecoderWeights(weights=opened(single), names=names)
    assert torch.equal(weights.take("layers.{layer}.q", (2, 3), layer=7), TENSORS["a"][:2])
    with pytest.raises(StageStartError, match=r"no tensor 'k7' \(layers\.7\.k\)"):
        weights.take("layers.{layer}.k", (2, 3), layer=7)
    with pytest.raises(StageStartError, match=r"does not say where 'norm' is"):
        weights.take("norm", (2,))


def test_drawn_weights_follow_the_seed_and_the_name() -> None:
    def drawn(seed: int, name: str) -> torch.Tensor:
        weights = open_weights(
            "", device="cpu", dtype=torch.float32, load_format="dummy", seed=seed
        )
        return weights.take(source(name), (64, 64), name)

    assert torch.equal(drawn(1, "x"), drawn(1, "x"))
    assert not torch.equal(drawn(1, "x"), drawn(2, "x"))
    assert not torch.equal(drawn(1, "x"), drawn(1, "y"))
    assert drawn(1, "x").std().item() == pytest.approx(1 / 8, rel=0.05)
