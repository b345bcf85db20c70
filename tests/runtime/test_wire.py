"""Payloads across the wire: what arrives is what was sent, and what cannot is refused."""

from __future__ import annotations

import gc
import itertools
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

from omni_host.errors import WireError
from omni_host.runtime.wire import FRAMED, INLINE, INLINE_LIMIT, SHARED, PayloadCodec
from omni_host.transports import TransportContext
from omni_host.transports.inline import InlineTransport
from omni_host.transports.shm import ShmTransport
from omni_host.transports.tensors import DTYPES

NUMPY_DTYPES = [name for name in DTYPES if name != "bfloat16"]
SHAPES = [(), (0,), (7,), (1920,), (3, 0, 5), (2, 3, 4), (16384,), (16385,), (130, 7, 100)]
TRANSPORTS = ["inline", "shm"]


class Ends:
    """Two codecs, as of two processes `a` and `b`, with their shared memory."""

    def __init__(self) -> None:
        self.memory = {name: _shm(name) for name in "ab"}
        self.a, self.b = (_codec(name, self.memory[name]) for name in "ab")

    def carry(self, value: Any, transport: str = "shm") -> Any:
        return self.b.decode(_sent(self.a.encode(value, transport, "b")), "a")

    def settle(self) -> int:
        """Hand back what `b` has released; how many tensors `b` still holds."""
        gc.collect()
        self.memory["a"].released(self.memory["b"].releases().get("a", []))
        return len(self.memory["a"]._out)


def _shm(process: str) -> ShmTransport:
    return ShmTransport(TransportContext(process=process, run="wiretest"))


def _codec(process: str, memory: ShmTransport, **options: bool) -> PayloadCodec:
    inline = InlineTransport(TransportContext(process=process, run="wiretest"))
    return PayloadCodec(process, {"inline": inline, "shm": memory}, **options)


def _sent(frames: list[Any]) -> list[bytes]:
    """What a socket makes of frames."""
    return [bytes(frame) for frame in frames]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    for memory in ends.memory.values():
        memory.close()


def _random_array(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 100, shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.integers(0, 100, shape)
    return np.asarray(values % 2 if dtype == "bool" else values).astype(dtype)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_an_array_arrives_with_its_dtype_shape_and_values(
    ends: Ends, dtype: str, transport: str
) -> None:
    for shape in SHAPES:
        array = _random_array(dtype, shape)
        got = ends.carry({"x": array}, transport)["x"]
        assert got.dtype == array.dtype
        assert got.shape == array.shape
        assert np.array_equal(got, array)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("side", [20, 400])
def test_an_array_that_is_not_contiguous_arrives_whole(
    ends: Ends, side: int, transport: str
) -> None:
    array = np.arange(side * side, dtype=np.float32).reshape(side, side)
    for view in (array.T, array[::2, 1::3], array[::-1], np.broadcast_to(array[0], (side, side))):
        assert np.array_equal(ends.carry(view, transport), view)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("length", [3, 40_000])
def test_a_big_endian_array_arrives_in_the_byte_order_of_the_machine(
    ends: Ends, length: int, transport: str
) -> None:
    got = ends.carry(np.arange(length, dtype=">i4"), transport)
    assert got.dtype == np.int32
    assert np.array_equal(got, np.arange(length))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("length", [10, 40_000])
def test_what_arrives_is_writable_and_aligned_and_nobody_elses(
    ends: Ends, length: int, transport: str
) -> None:
    sent = np.ones(length)
    first, second = ends.carry([sent, sent], transport)
    first += 1
    assert sent.sum() == second.sum() == length
    assert first.flags.aligned


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_read_only_array_can_be_sent(ends: Ends, transport: str) -> None:
    for length in (10, 40_000):
        array = np.ones(length)
        array.flags.writeable = False
        assert ends.carry(array, transport).sum() == length


def _random_value(rng: random.Random, depth: int = 0) -> Any:
    leaves = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randint(-(2**63), 2**64 - 1),
        lambda: rng.uniform(-1e300, 1e300),
        lambda: "".join(rng.choices("aé漢🎵\x00", k=rng.randint(0, 20))),
        lambda: rng.randbytes(rng.randint(0, 300)),
        lambda: _random_array(rng.choice(NUMPY_DTYPES), (rng.randint(0, 40_000),)),
    ]
    if depth > 4 or rng.random() < 0.3:
        return rng.choice(leaves)()
    items = [_random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return items if rng.random() < 0.5 else {f"k{i}": item for i, item in enumerate(items)}


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("seed", range(40))
def test_any_nesting_of_values_arrives_as_it_was_and_nothing_stays_shared(
    ends: Ends, seed: int
) -> None:
    value = _random_value(random.Random(seed))
    for transport in TRANSPORTS:
        assert _same(value, ends.carry(value, transport))
    assert ends.settle() == 0


def test_floats_that_are_no_numbers_arrive(ends: Ends) -> None:
    nan, inf = ends.carry([math.nan, -math.inf])
    assert math.isnan(nan)
    assert inf == -math.inf


def test_a_tuple_arrives_as_a_list(ends: Ends) -> None:
    assert ends.carry({"pair": (1, ("a", None))}) == {"pair": [1, ["a", None]]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [1, {"b": object()}]}, "payload.a[1].b is of type object"),
        ({"a": {1: "x"}}, "payload.a has a key 1 of type int"),
        ({b"a": 1}, "payload has a key b'a' of type bytes"),
        ({1, 2}, "payload is of type set"),
        ([np.float32(1)], "payload[0] is of type numpy.float32"),
        ({"x": bytearray(3)}, "payload.x is of type bytearray"),
        ({"x": memoryview(b"abc")}, "payload.x is of type memoryview"),
        ({"x": msgpack.ExtType(1, b"")}, "payload.x is of type msgpack.ext.ExtType"),
        ({"x": [0, 2**64]}, "payload.x[1] is an int of more than 64 bits"),
        ({"x": -(2**63) - 1}, "payload.x is an int of more than 64 bits"),
        ({"x": ("\ud800",)}, "payload.x[0] is a str that is not valid Unicode"),
        ({"x": np.array([None])}, "payload.x: a ndarray of dtype object"),
        ({"x": np.array(["a"])}, "payload.x: a ndarray of dtype <U1"),
        ({"x": np.zeros(3, "datetime64[s]")}, "payload.x: a ndarray of dtype datetime64[s]"),
        ({"x": np.zeros(3, "f4,i4")}, "payload.x: a ndarray of dtype"),
        ({"x": np.zeros(3, np.longdouble)}, "payload.x: a ndarray of dtype float128"),
        ({"x": np.ma.masked_array([1, 2])}, "payload.x: a MaskedArray of dtype int64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_carried_is_refused_by_type_and_path(
    ends: Ends, value: Any, says: str
) -> None:
    with pytest.raises(WireError) as caught:
        ends.a.encode(value, "shm", "b")
    assert says in caught.value.message


def test_a_value_that_holds_itself_is_refused(ends: Ends) -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    with pytest.raises(WireError, match="holds itself"):
        ends.a.encode(loop, "inline", "b")


def test_an_edge_without_its_transport_is_refused(ends: Ends) -> None:
    with pytest.raises(WireError, match="no transport 'pigeon' in process a"):
        ends.a.encode(1, "pigeon", "b")


def test_what_was_shared_before_the_fault_was_met_is_taken_back(ends: Ends) -> None:
    large = np.zeros(40_000)
    with pytest.raises(WireError, match=r"payload\[1\] is an int"):
        ends.a.encode([large, 2**70], "shm", "b")
    assert not ends.memory["a"]._out
    assert np.array_equal(ends.carry(large), large)


@pytest.mark.parametrize(
    ("transport", "nbytes", "frames", "shared"),
    [
        ("inline", INLINE_LIMIT, 1, 0),
        ("inline", INLINE_LIMIT + 1, 2, 0),
        ("shm", INLINE_LIMIT, 1, 0),
        ("shm", INLINE_LIMIT + 1, 1, 1),
    ],
)
def test_only_what_is_large_leaves_the_message(
    ends: Ends, transport: str, nbytes: int, frames: int, shared: int
) -> None:
    assert len(ends.a.encode(np.zeros(nbytes, np.uint8), transport, "b")) == frames
    assert len(ends.memory["a"]._out) == shared


def test_a_large_frame_is_the_arrays_own_memory(ends: Ends) -> None:
    array = np.zeros(100_000)
    assert np.shares_memory(np.frombuffer(ends.a.encode(array, "inline", "b")[1]), array)


def test_a_frame_that_is_writable_becomes_the_array_without_a_copy(ends: Ends) -> None:
    document, values = ends.a.encode(np.arange(20_000), "inline", "b")
    frame = bytearray(values)
    assert np.shares_memory(ends.b.decode([document, frame], "a"), np.frombuffer(frame))


def test_an_encoder_keeps_no_tensor_alive(ends: Ends) -> None:
    array = np.zeros(100_000)
    count = sys.getrefcount(array)
    ends.a.encode(array, "inline", "b")
    assert sys.getrefcount(array) == count


def test_discarded_frames_give_back_what_they_share_without_mapping_it(ends: Ends) -> None:
    frames = ends.a.encode({"x": [np.zeros(40_000)] * 3, "small": np.zeros(3)}, "shm", "b")
    ends.b.discard(frames, "a")
    assert not ends.memory["b"]._owners["a"].mapped
    assert ends.settle() == 0


def test_frames_that_never_left_are_given_back_by_their_owner(ends: Ends) -> None:
    frames = ends.a.encode([np.zeros(40_000)] * 2, "shm", "b")
    ends.a.discard(frames, "a")
    assert not ends.memory["a"]._out


def _sample_frames(ends: Ends, transport: str) -> list[bytes]:
    value = {"a": [np.zeros((3, 2)), np.ones(20_000)], "text": "héllo", "n": 2**40}
    return _sent(ends.a.encode(value, transport, "b"))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_message_cut_anywhere_is_refused_and_shares_nothing(ends: Ends, transport: str) -> None:
    document, *rest = _sample_frames(ends, transport)
    for end in range(len(document)):
        with pytest.raises(WireError):
            ends.b.decode([document[:end], *rest], "a")
    assert ends.settle() == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_corrupt_message_gives_a_value_or_a_wire_error(ends: Ends, transport: str) -> None:
    document, *rest = _sample_frames(ends, transport)
    rng = random.Random(5)
    for place, _ in itertools.product(range(len(document)), range(4)):
        corrupt = bytearray(document)
        corrupt[place] = rng.randrange(256)
        try:
            ends.b.decode([bytes(corrupt), *rest], "a")
        except WireError:
            continue


def _extension(code: int, *fields: Any) -> bytes:
    data = fields[0] if code == INLINE else msgpack.packb(fields)
    return msgpack.packb(msgpack.ExtType(code, data))


FLOAT32 = DTYPES.index("float32")
HEAD = bytes([0, FLOAT32, 1, 0]) + (3).to_bytes(8, "little") + bytes(4)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xc1",
        b"\x01\x02",
        msgpack.packb({1: 2}),
        _extension(9, 1),
        _extension(INLINE, b""),
        _extension(INLINE, HEAD[:10]),
        _extension(INLINE, HEAD + bytes(11)),
        _extension(INLINE, HEAD + bytes(13)),
        _extension(INLINE, bytes([7, *HEAD[1:]]) + bytes(12)),
        _extension(INLINE, bytes([0, 200, *HEAD[2:]]) + bytes(12)),
        _extension(INLINE, bytes([0, DTYPES.index("bfloat16"), *HEAD[2:]]) + bytes(6)),
        _extension(INLINE, bytes([0, FLOAT32, 65, 0]) + bytes(700)),
        _extension(INLINE, HEAD[:4] + b"\xff" * 8 + bytes(4 + 12)),
        _extension(INLINE, bytes([0, FLOAT32, 2, 0]) + bytes(8) + b"\xff" * 8 + bytes(12)),
        _extension(SHARED),
        _extension(SHARED, 0, FLOAT32, [3], "shm"),
        _extension(SHARED, 0, FLOAT32, [3], "pigeon", 1),
        _extension(SHARED, 0, FLOAT32, [3], ["shm"], 1),
        _extension(SHARED, 0, FLOAT32, [-3], "shm", 1),
        _extension(SHARED, 0, FLOAT32, [1.5], "shm", 1),
        _extension(SHARED, 0, FLOAT32, "ab", "shm", 1),
        _extension(SHARED, 0, [1], [3], "shm", 1),
        _extension(SHARED, 0, 99, [3], "shm", 1),
        _extension(SHARED, "numpy", FLOAT32, [3], "shm", 1),
        _extension(SHARED, 0.0, FLOAT32, [3], "shm", 1),
        _extension(FRAMED, 0, FLOAT32, [0, 2**63], "inline", 2),
        _extension(FRAMED, 0, FLOAT32, [0] * 65, "inline", 2),
        _extension(SHARED, 0, FLOAT32, [3], "shm", None),
        _extension(SHARED, 0, FLOAT32, [3], "shm", {"fd": 1}),
        _extension(SHARED, 0, FLOAT32, [3], "inline", 5),
        _extension(FRAMED, 0, FLOAT32, [3], "inline", 0),
        _extension(FRAMED, 0, FLOAT32, [3], "inline", 3),
        _extension(FRAMED, 0, FLOAT32, [3], "inline", "1"),
        _extension(FRAMED, 0, FLOAT32, [4], "inline", 1),
        _extension(FRAMED, 0, FLOAT32, [2**62, 2**62], "inline", 1),
    ],
)
def test_a_malformed_header_is_a_wire_error(ends: Ends, document: bytes) -> None:
    frames = [document, bytes(12), b""]
    with pytest.raises(WireError):
        ends.b.decode(frames, "a")
    ends.b.discard(frames, "a")


def test_a_message_of_no_frames_is_a_wire_error(ends: Ends) -> None:
    with pytest.raises(WireError, match="without a payload"):
        ends.b.decode([], "a")


def test_a_codec_serves_several_threads_at_once(ends: Ends) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def carry(seed: int) -> bool:
        value = {"small": np.full(50, seed), "large": np.full(20_000, seed), "n": seed}
        return _same(value, ends.carry(value, "shm"))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(carry, range(400)))
    assert ends.settle() == 0


def test_the_codec_brings_in_neither_torch_nor_multiprocessing() -> None:
    program = (
        "import sys, numpy as np\n"
        "before = set(sys.modules)\n"
        "from omni_host.runtime.wire import PayloadCodec\n"
        "from omni_host.transports import TransportContext\n"
        "from omni_host.transports.shm import ShmTransport\n"
        "shm = ShmTransport(TransportContext(process='a', run='r'))\n"
        "frames = PayloadCodec('a', {'shm': shm}).encode([np.zeros(20000)], 'shm', 'b')\n"
        "print({'torch', 'multiprocessing'} & (set(sys.modules) - before))\n"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"
