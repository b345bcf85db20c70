"""The other end of the tests: a process with a codec, told what to do over its pipes.

Each line in is a msgpack list in hex, of a method's name and its arguments; each line out
is the result.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgpack
import numpy as np

from omni_host.runtime.wire import PayloadCodec
from omni_host.transports import TransportContext
from omni_host.transports.shm import ShmTransport


class Peer:
    def __init__(self, process: str, segments: str) -> None:
        context = TransportContext(process=process, run="peertest", settings={"segments": segments})
        self._shm = ShmTransport(context)
        self._codec = PayloadCodec(process, {"shm": self._shm})
        self._held: list[Any] = []

    def send(self, peer: str, count: int, length: int) -> list[bytes]:
        arrays = [np.full(length, index, np.float32) for index in range(count)]
        return [bytes(frame) for frame in self._codec.encode(arrays, "shm", peer)]

    def hold(self, frames: list[bytes], owner: str) -> float:
        """Keep what arrived; the sum of it."""
        arrays = self._codec.decode(frames, owner)
        self._held.extend(arrays)
        return float(sum(array.sum() for array in arrays))

    def drop(self) -> dict[str, list[int]]:
        self._held.clear()
        return dict(self._shm.releases())

    def echo(self, frames: list[bytes], owner: str) -> list[bytes]:
        """Send back twice what arrived."""
        arrays = [array * 2 for array in self._codec.decode(frames, owner)]
        return [bytes(frame) for frame in self._codec.encode(arrays, "shm", owner)]

    def released(self, tokens: list[int]) -> int:
        """How many tensors are still out then."""
        self._shm.released(tokens)
        return len(self._shm._out)

    def pid(self) -> int:
        return os.getpid()

    def close(self) -> None:
        self._shm.close()


def main() -> None:
    peer = Peer(*sys.argv[1:])
    for line in sys.stdin:
        method, *arguments = msgpack.unpackb(bytes.fromhex(line))
        result = getattr(peer, method)(*arguments)
        print(msgpack.packb(result).hex(), flush=True)


main()
