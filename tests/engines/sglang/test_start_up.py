"""Arguments, versions, symbols, stand-ins, and one engine a process."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import replace

import pytest

from omni_host.engines.sglang_engine import SglangEngine, cpu_shims, symbols
from omni_host.errors import ConfigError, StageStartError
from tests.engines.toy_decoders import TOYS, ToyProgram, build, request

TOY = TOYS["dense text"]


def test_server_args_reach_sglang(engine_of) -> None:
    engine = engine_of(TOY, chunked_prefill_size=24, schedule_conservativeness=0.3)
    args = engine._worker.server_args
    assert args.chunked_prefill_size == 24
    assert args.schedule_conservativeness == 0.3
    assert args.max_total_tokens == engine.cache_use().total == 4096
    assert args.attention_backend == "torch_native"


def test_the_cache_is_no_larger_than_requests_could_fill(engine_of) -> None:
    engine = engine_of(TOY, max_total_tokens=None, max_running_requests=3)
    assert engine.cache_use().total == 3 * TOY.decoder.max_positions


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("chunked_prefil_size", 8, "no server argument 'chunked_prefil_size'"),
        ("model_path", "x", "the engine builds the decoder from its spec"),
        ("device", "cuda", "the stage's placement decides it"),
        ("speculative_algorithm", "EAGLE", "without it"),
        ("sampling_backend", "flashinfer", "without it"),
        ("load_format", "gguf", "auto, safetensors, dummy"),
        ("page_size", 16, "pages hold one row"),
        ("max_running_requests", 0, "a whole number from 1 up"),
        ("attention_backend", "torch", "SGLang knows triton, torch_native"),
    ],
)
def test_an_argument_that_cannot_be_is_named(key: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        SglangEngine(build(TOY, ToyProgram(TOY), **{key: value}))
    assert refused.value.field == f"server_args.{key}"


def test_a_misspelt_argument_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError) as refused:
        SglangEngine(build(TOY, ToyProgram(TOY), chunked_prefil_size=8))
    assert "chunked_prefill_size" in refused.value.hint


def test_what_sglang_refuses_is_said_in_its_words_and_leaves_the_process_free(engine_of) -> None:
    with pytest.raises(ConfigError, match="refuses its arguments"):
        SglangEngine(build(TOY, ToyProgram(TOY), chunked_prefill_size="many"))
    assert engine_of(TOY).inside == 0


def test_a_start_that_fails_inside_sglang_is_no_traceback(engine_of) -> None:
    with pytest.raises(StageStartError, match="does not start"):
        SglangEngine(build(TOY, ToyProgram(TOY), max_total_tokens=1))
    assert engine_of(TOY).inside == 0


def test_a_second_engine_in_a_process_is_refused_until_the_first_is_closed(engine_of) -> None:
    first = engine_of(TOY)
    with pytest.raises(StageStartError, match="one a process") as refused:
        SglangEngine(build(TOY, ToyProgram(TOY), max_total_tokens=512))
    assert "`process`" in refused.value.hint
    first.close()
    second = SglangEngine(build(TOY, ToyProgram(TOY), max_total_tokens=512))
    second.submit(request(TOY, "one", frames=2, ignore_stop=True))
    assert [it.id for it in second.step()] == ["one"]
    first.close()
    with pytest.raises(StageStartError):
        SglangEngine(build(TOY, ToyProgram(TOY), max_total_tokens=512))
    second.close()


def test_a_dtype_that_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match="float32, bfloat16, float16") as refused:
        SglangEngine(replace(build(TOY, ToyProgram(TOY)), dtype="int8"))
    assert refused.value.field == "dtype"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_dtypes_run(engine_of, dtype: str) -> None:
    engine = engine_of(TOYS["frames"], dtype=dtype)
    engine.submit(request(TOYS["frames"], "one", frames=3, ignore_stop=True))
    codes = [it.codes for _ in range(3) for it in engine.step()]
    assert len(codes) == 3


def test_weights_that_are_not_there_leave_the_process_free(engine_of, tmp_path) -> None:
    missing = replace(build(TOY, ToyProgram(TOY)), weights=str(tmp_path), server_args={})
    with pytest.raises(StageStartError, match="neither"):
        SglangEngine(missing)
    assert engine_of(TOY).inside == 0


def test_a_version_that_is_not_known_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.1")
    with pytest.raises(StageStartError, match=r"SGLang 0\.4\.1 .* runs on 0\.5\.17") as refused:
        symbols.load.__wrapped__("cpu")
    assert refused.value.hint == "omni install-engine sglang"


def test_a_missing_sglang_is_no_traceback(monkeypatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(StageStartError, match="not installed"):
        symbols.load.__wrapped__("cpu")


def test_symbols_that_moved_are_named_with_the_version(monkeypatch) -> None:
    monkeypatch.setitem(symbols.NAMES, "Req", "sglang.srt.managers.schedule_batch:Request")
    monkeypatch.setitem(symbols.NAMES, "Gone", "sglang.srt.gone:Gone")
    with pytest.raises(StageStartError, match="lacks what this engine relies on") as refused:
        symbols.load.__wrapped__("cpu")
    assert importlib.metadata.version("sglang") in refused.value.message
    assert "schedule_batch:Request" in refused.value.message
    assert "sglang.srt.gone:Gone" in refused.value.message


def test_every_listed_symbol_is_used() -> None:
    package = cpu_shims.__file__.rpartition("/")[0]
    names = set(symbols.NAMES).union(*symbols.NAMES_OF.values())
    from pathlib import Path

    text = "".join(path.read_text() for path in Path(package).glob("*.py"))
    assert {name for name in names if f"sgl.{name}" not in text} == set()


def test_stand_ins_stand_for_nothing_that_is_installed() -> None:
    symbols.load("cpu")
    finder = next(it for it in sys.meta_path if isinstance(it, cpu_shims._StandInFinder))
    assert finder is sys.meta_path[-1]
    assert finder.find_spec("transformers") is None
    assert cpu_shims.install() == (), "once is enough"
    for name in finder.roots:
        with pytest.raises(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(name)


def test_a_stand_in_never_runs() -> None:
    kernel = cpu_shims._Absent("triton.jit")(lambda x: x)
    with pytest.raises(ImportError, match="needs triton"):
        kernel[(1,)](3)
