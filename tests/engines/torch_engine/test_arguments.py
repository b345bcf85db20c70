"""What the torch engine can be told, and what it says about anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from omni_host.engines import Head, Rope
from omni_host.engines.torch_engine import TorchEngine
from omni_host.engines.torch_engine.arguments import TorchArguments
from omni_host.errors import ConfigError, StageStartError
from tests.engines.toy_decoders import TOYS, ToyProgram, build, decoder, frame

TOY = TOYS["frames"]


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError) as refused:
        TorchArguments.of({"chunk_row": 5})
    assert refused.value.field == "server_args.chunk_row"
    assert refused.value.hint == "did you mean 'chunk_rows'?"
    with pytest.raises(ConfigError) as refused:
        TorchArguments.of({"zzz": 5})
    assert "max_running" in refused.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("page_size", 0),
        ("page_size", True),
        ("page_size", 1.5),
        ("max_total_rows", -1),
        ("memory_fraction", 1.5),
        ("memory_fraction", "half"),
        ("max_running", 0),
        ("prefix_cache", "yes"),
        ("load_format", "pickle"),
        ("batch_sizes", (1, 2)),
        ("batch_sizes", "many"),
    ],
)
def test_a_bad_value_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key) as refused:
        TorchArguments.of({key: value})
    assert refused.value.field == f"server_args.{key}"


def test_the_cache_takes_a_share_of_memory_and_no_more_than_is_of_use() -> None:
    small = build(TOY, ToyProgram(TOY), max_running=2)
    assert TorchEngine(small).cache_use().total == 2 * 512
    capped = build(TOY, ToyProgram(TOY), max_total_rows=100, page_size=16)
    assert TorchEngine(capped).cache_use().total == 96


def test_a_cache_without_a_page_is_an_error() -> None:
    with pytest.raises(StageStartError, match="no page of 16 rows"):
        TorchEngine(build(TOY, ToyProgram(TOY), max_total_rows=15))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"dtype": "float8"}, "dtype"),
        ({"decoder": decoder(head=None)}, "decoder.head"),
        ({"decoder": decoder(frame_length=4)}, "decoder.frame_length"),
        ({"decoder": decoder(mlps=())}, "decoder.mlps"),
        ({"decoder": decoder(capture=(2,))}, "decoder.capture"),
        ({"decoder": decoder(rope=Rope(theta=1e4, sections=(4, 4, 4)))}, "decoder.rope.sections"),
        ({"decoder": decoder(head=Head(vocabulary=40, tied=True))}, "decoder.head"),
        ({"frame": None}, "vocabulary"),
        ({"frame": replace(frame(), codes=5)}, "frame.inputs"),
        ({"frame": replace(frame(), projection=None)}, "frame.decoder.width"),
        (
            {"frame": replace(frame(), sampling=replace(frame().sampling, stop=(1,)))},
            "frame.sampling",
        ),
    ],
)
def test_specs_that_contradict_themselves_are_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TorchEngine(replace(build(TOY, ToyProgram(TOY)), **changes))
    assert refused.value.field == field


def test_weights_that_are_not_there_stop_the_start(tmp_path: Path) -> None:
    real = replace(build(TOY, ToyProgram(TOY)), weights=str(tmp_path), server_args={})
    with pytest.raises(StageStartError, match="has neither"):
        TorchEngine(real)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_decodes(dtype: str) -> None:
    from tests.engines.toy_decoders import request

    for toy in TOYS.values():
        engine = TorchEngine(replace(build(toy, ToyProgram(toy), max_total_rows=512), dtype=dtype))
        engine.submit(request(toy, "one", frames=3, ignore_stop=True))
        outputs = [output for _ in range(3) for output in engine.step()]
        assert [output.finished for output in outputs] == [None, None, "length"]
