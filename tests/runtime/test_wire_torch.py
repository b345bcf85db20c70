"""Torch tensors across the wire: they arrive as torch where torch is, as numpy elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

from omni_host.errors import WireError
from omni_host.runtime.wire import PayloadCodec
from omni_host.transports import TransportContext
from omni_host.transports.inline import InlineTransport
from omni_host.transports.shm import ShmTransport
from omni_host.transports.tensors import DTYPES

torch = pytest.importorskip("torch")

TRANSPORTS = ["inline", "shm"]
SHAPES = [(), (0,), (7,), (3, 0, 5), (2, 3, 4), (130, 7, 100)]


class Ends:
    """A codec that sends, one that receives, and one that receives without torch."""

    def __init__(self) -> None:
        contexts = [TransportContext(process=name, run="torchtest") for name in "abh"]
        self.memory = [ShmTransport(context) for context in contexts]
        transports = [{"shm": one, "inline": InlineTransport(contexts[0])} for one in self.memory]
        self.sender = PayloadCodec("a", transports[0])
        self.receiver = PayloadCodec("b", transports[1])
        self.host = PayloadCodec("h", transports[2], torch=False)

    def carry(self, value: Any, transport: str) -> Any:
        frames = [bytes(frame) for frame in self.sender.encode(value, transport, "b")]
        return self.receiver.decode(frames, "a")

    def carry_to_host(self, value: Any, transport: str) -> Any:
        return self.host.decode(self.sender.encode(value, transport, "h"), "a")


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    for memory in ends.memory:
        memory.close()


def _random_tensor(dtype: str, shape: tuple[int, ...]) -> Any:
    values = np.random.default_rng(0).integers(0, 100, shape)
    if dtype.startswith("complex"):
        values = values * (1 + 2j)
    return torch.as_tensor(values).to(getattr(torch, dtype))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_arrives_with_its_dtype_shape_and_values(
    ends: Ends, dtype: str, transport: str
) -> None:
    for shape in SHAPES:
        tensor = _random_tensor(dtype, shape)
        got = ends.carry([tensor], transport)[0]
        assert got.dtype == tensor.dtype
        assert got.shape == tensor.shape
        assert torch.equal(got, tensor)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("side", [20, 400])
def test_a_tensor_of_any_strides_arrives_whole(ends: Ends, side: int, transport: str) -> None:
    tensor = torch.rand(side, side)
    imaginary = torch.complex(tensor, tensor).conj()
    single = torch.rand(1).as_strided((1,), (0,))
    for view in (tensor.T, tensor[::2, 3:], tensor[0].expand(side, side), imaginary, single):
        assert torch.equal(ends.carry(view, transport), view)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_arrives_is_writable_and_needs_no_gradient(ends: Ends, transport: str) -> None:
    for size in (10, 40_000):
        sent = torch.nn.Parameter(torch.ones(size))
        got = ends.carry(sent, transport)
        got += 1
        assert sent.sum() == size
        assert not got.requires_grad


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("size", [10, 40_000])
def test_without_torch_a_tensor_arrives_as_numpy(ends: Ends, size: int, transport: str) -> None:
    got = ends.carry_to_host(torch.ones(size, dtype=torch.float16), transport)
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.float16
    assert got.sum() == size


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("size", [10, 40_000])
def test_without_torch_bfloat16_is_refused_and_released(
    ends: Ends, size: int, transport: str
) -> None:
    with pytest.raises(WireError, match="bfloat16 arrived in a process without torch"):
        ends.carry_to_host(torch.ones(size, dtype=torch.bfloat16), transport)
    ends.memory[0].released(ends.memory[2].releases().get("a", []))
    assert not ends.memory[0]._out


def test_numpy_arrays_stay_numpy_arrays(ends: Ends) -> None:
    small, large = ends.carry([np.zeros(3), np.zeros(40_000)], "shm")
    assert type(small) is type(large) is np.ndarray


@pytest.mark.parametrize(
    ("derive"),
    [lambda t: t[3:5], lambda t: t.view(torch.int32).reshape(2, -1), lambda t: t.numpy()],
)
def test_any_view_of_a_tensor_keeps_its_slot(ends: Ends, derive: Any) -> None:
    view = derive(ends.carry(torch.ones(40_000), "shm"))
    assert not ends.memory[1].releases()
    del view
    assert list(ends.memory[1].releases()) == ["a"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.zeros(3).to_sparse(), "torch.sparse_coo"),
        (lambda: torch.zeros(100_000, device="meta"), "device meta"),
        (lambda: torch.zeros(3).to(torch.float8_e4m3fn), "torch.float8_e4m3fn"),
    ],
)
def test_a_tensor_that_cannot_be_carried_is_refused(ends: Ends, make: Any, says: str) -> None:
    with pytest.raises(WireError) as caught:
        ends.sender.encode({"x": [make()]}, "shm", "b")
    assert says in caught.value.message
    assert caught.value.message.startswith("payload.x[0]: a torch tensor")


def test_receiving_a_tensor_imports_torch_only_where_it_may(ends: Ends) -> None:
    frames = [bytes(frame) for frame in ends.sender.encode(torch.ones(3), "inline", "b")]
    program = (
        "import sys, msgpack\n"
        "from omni_host.runtime.wire import PayloadCodec\n"
        "frames = msgpack.unpackb(bytes.fromhex(sys.argv[1]))\n"
        "host = PayloadCodec('h', {}, torch=False).decode(frames, 'a')\n"
        "print(type(host).__module__, 'torch' in sys.modules)\n"
        "print(type(PayloadCodec('b', {}).decode(frames, 'a')).__module__)\n"
    )
    command = [sys.executable, "-c", program, msgpack.packb(frames).hex()]
    assert subprocess.check_output(command, text=True).split() == ["numpy", "False", "torch"]
