"""Every autoregressive golden, on every engine, in every circumstance."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from omni_host.engines import Engine, EngineBuild
from tests.parity import goldens, programs, scenarios

DECODINGS = [
    *programs.decodings(goldens.speaking),
    *(programs.shape(folder) for folder in sorted((goldens.CARRIED / "shapes").iterdir())),
]
ENGINES = [
    "torch",
    pytest.param(
        "sglang", marks=pytest.mark.skipif(find_spec("sglang") is None, reason="no SGLang here")
    ),
]


def build(name: str, engine_build: EngineBuild) -> Engine:
    if name == "torch":
        from omni_host.engines.torch_engine import TorchEngine

        return TorchEngine(engine_build)
    from omni_host.engines.sglang_engine import SglangEngine

    return SglangEngine(engine_build)


@pytest.mark.parametrize("setting", scenarios.SETTINGS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name.replace(" ", "-"))
@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.slow
def test_the_codes_are_the_recorded_ones(
    engine_name: str, decoding: programs.Decoding, setting: str
) -> None:
    chosen = scenarios.SETTINGS[setting]
    program = programs.RecordedProgram()
    engine = build(
        engine_name,
        decoding.build(program, **chosen.server_args(engine_name, decoding)),
    )
    try:
        outcomes = chosen.run(engine, decoding, program)
        for recorded in decoding.requests:
            scenarios.check(recorded, outcomes[recorded.name])
        use = engine.cache_use()
        assert use.active == 0
        assert use.free + use.cached == use.total
    finally:
        engine.close()
