"""Two ranks on one CPU, over gloo."""

from __future__ import annotations

import pytest

from omni_host.errors import StageStartError
from tests.engines.torch_engine.test_invariances import requests, run
from tests.engines.toy_decoders import TOYS, ToyProgram

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # SGLang calls a deprecated collective, and leaves its message queue to the collector.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("name", ["dense text", "three positions", "frames", "experts"])
def test_two_ranks_give_what_one_gives(engine_of, name: str) -> None:
    toy = TOYS[name]
    arrivals = [(i, it) for i, it in enumerate(requests(toy))]
    crowded = {"max_total_tokens": 100, "chunked_prefill_size": 16}
    one = run(engine_of(toy, ToyProgram(toy, starved=True), **crowded), arrivals)
    two = engine_of(toy, ToyProgram(toy, starved=True), **crowded, tp_size=2)
    processes = two._worker._followers._processes[:]
    outcomes = run(two, arrivals)
    assert {k: v.codes for k, v in outcomes.items()} == {k: v.codes for k, v in one.items()}
    two.close()
    assert [process.returncode for process in processes] == [0]


def test_heads_that_cannot_be_shared_among_ranks_are_no_traceback(engine_of) -> None:
    with pytest.raises(StageStartError, match="does not start"):
        engine_of(TOYS["dense text"], tp_size=3)
    assert engine_of(TOYS["dense text"]).inside == 0
