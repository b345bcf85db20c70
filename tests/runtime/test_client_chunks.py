"""What a terminal may give to the client."""

from __future__ import annotations

import numpy as np
import pytest

from omni_host.errors import StageFailedError
from omni_host.graph import Output, Task
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, run, running

RULES = {
    "audio": "as audio; audio is a float32 array [samples], mono, -1..1",
    "text": "as text; text is a str",
}
FAULTS = {
    "audio": {
        "string": "a str",
        "list": "a list",
        "None": "None",
        "bytes": "a bytes",
        "int16": "an array of int16",
        "float64": "an array of float64",
        "2-D": "an array of shape (1, 3)",
        "nan": "NaN or infinite samples",
        "infinite": "NaN or infinite samples",
    },
    "text": {"bytes": "a bytes", "None": "None", "loud": "a ndarray"},
}


def terminal(toy: str, modality: str):
    output = Output(stage="beeper", modality=modality, sample_rate=8000)
    return deploy(
        (stage("beeper", toy),), (), (Task(name="t", entry=("beeper",), outputs=(output,)),)
    )


@pytest.mark.parametrize("modality", FAULTS)
@pytest.mark.parametrize("toy", ["Emit", "Return"])
def test_what_is_not_of_its_modality_is_the_stages_error(toy, modality):
    async def main():
        async with running(terminal(toy, modality)) as pipeline:
            for name, what in FAULTS[modality].items():
                with pytest.raises(StageFailedError) as caught:
                    await answer(pipeline, payload={"text": name})
                assert caught.value.message == f"Stage 'beeper' emitted {what} {RULES[modality]}"
                assert caught.value.field == "beeper"

    run(main())


@pytest.mark.parametrize("toy", ["Emit", "Return"])
def test_audio_arrives_as_it_was_made(toy):
    async def main():
        async with running(terminal(toy, "audio")) as pipeline:
            for name, expected in (("loud", [1.5] * 3), ("empty", [])):
                (found,) = await answer(pipeline, payload={"text": name})
                assert found.dtype == np.float32
                assert found.tolist() == expected

    run(main())


def test_audio_may_be_a_torch_tensor():
    pytest.importorskip("torch")

    async def main():
        async with running(terminal("Emit", "audio")) as pipeline:
            (found,) = await answer(pipeline, payload={"text": "torch"})
            assert isinstance(found, np.ndarray)
            assert found.tolist() == [0.5] * 3
            for name, what in (("torch 2-D", "shape"), ("torch float64", "float64")):
                with pytest.raises(StageFailedError, match=f"an array of {what}"):
                    await answer(pipeline, payload={"text": name})

    run(main())


def test_another_modality_is_the_familys_own():
    async def main():
        async with running(terminal("Emit", "score")) as pipeline:
            assert await answer(pipeline, payload={"text": "list"}) == [[0.0, 0.5]]

    run(main())
