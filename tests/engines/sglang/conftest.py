"""SGLang engines for tests, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omni_host.engines.sglang_engine import SglangEngine
    from tests.engines.toy_decoders import Toy, ToyProgram

# SGLang is looked for and not imported: what it lacks here is filled in by the engine.
if not all(map(find_spec, ("torch", "sglang"))):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def engine_of() -> Iterator[Callable[..., SglangEngine]]:
    """Build an engine for a toy; the one before is closed."""
    from omni_host.engines.sglang_engine import SglangEngine
    from tests.engines.toy_decoders import ToyProgram, build

    opened: list[SglangEngine] = []

    def make(
        toy: Toy,
        program: ToyProgram | None = None,
        *,
        dtype: str = "float32",
        **server_args: object,
    ) -> SglangEngine:
        close()
        arguments = {"max_total_tokens": 4096, "disable_radix_cache": False, **server_args}
        made = build(toy, program or ToyProgram(toy), **arguments)
        opened.append(SglangEngine(replace(made, dtype=dtype)))
        return opened[-1]

    def close() -> None:
        while opened:
            opened.pop().close()

    yield make
    close()
