"""A decode step can be captured: it looks at nothing on the device and never changes shape."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

from omni_host.engines.torch_engine import TorchEngine
from omni_host.engines.torch_engine.model import TorchModel
from tests.engines.toy_decoders import TOYS, ToyProgram, build, request

LOOKS = {"_local_scalar_dense", "item", "nonzero", "masked_select", "is_nonzero", "equal", "unique"}


class Recorder(TorchDispatchMode):
    """The operations of a step with the shapes they give."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, tuple[int, ...] | None]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        shape = tuple(given.shape) if isinstance(given, torch.Tensor) else None
        self.operations.append((func.overloadpacket.__name__, shape))
        return given


@pytest.mark.parametrize("name", TOYS, ids=lambda name: name.replace(" ", "-"))
def test_steps_of_one_batch_size_are_the_same_operations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = TOYS[name]
    steps: list[list[tuple[str, tuple[int, ...] | None]]] = []
    decode = TorchModel.decode

    def recorded(self: TorchModel, *args: Any, **kwargs: Any) -> Any:
        with Recorder() as recorder:
            given = decode(self, *args, **kwargs)
        steps.append(recorder.operations)
        return given

    monkeypatch.setattr(TorchModel, "decode", recorded)
    engine = TorchEngine(build(toy, ToyProgram(toy), page_size=64, batch_sizes=(4, 64)))
    for i in range(4):
        engine.submit(request(toy, f"r{i}", rows=5 + 4 * i, frames=4 + 3 * i, ignore_stop=True))
    while engine.inside:
        engine.step()
    assert len(steps) > 10, "with four, three, two and one in the batch"
    assert all(step == steps[0] for step in steps)
    assert not {operation for operation, _ in steps[0]} & LOOKS
