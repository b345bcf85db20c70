"""Shared memory between real processes, and what is left when one is killed."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from omni_host.errors import WireError
from omni_host.runtime.wire import PayloadCodec
from omni_host.transports import TransportContext
from omni_host.transports.segments import best_backing
from omni_host.transports.shm import ShmTransport

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

LENGTH = 300_000


class Process:
    """A process that runs `peer.py`; its methods are those of `Peer`."""

    def __init__(self, name: str, segments: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("peer.py"), name, segments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgpack.packb(request).hex() + "\n")
        self._process.stdin.flush()
        return msgpack.unpackb(bytes.fromhex(self._process.stdout.readline()))

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> str:
        """Let it end by itself; what it wrote to stderr."""
        return self._process.communicate(timeout=30)[1]


class Site:
    """This process, called `here`, and others."""

    def __init__(self, segments: str) -> None:
        self.segments = segments
        self.before = traces()
        context = TransportContext(process="here", run="peertest", settings={"segments": segments})
        self.shm = ShmTransport(context)
        self.codec = PayloadCodec("here", {"shm": self.shm})
        self.processes: list[Process] = []

    def start(self, name: str) -> Process:
        self.processes.append(Process(name, self.segments))
        return self.processes[-1]

    def send(self, peer: str, count: int = 4) -> list[bytes]:
        arrays = [np.full(LENGTH, index, np.float32) for index in range(count)]
        return [bytes(frame) for frame in self.codec.encode(arrays, "shm", peer)]


def traces() -> tuple[int, list[str]]:
    """Open descriptors of this process, and the segments of these tests that have a name."""
    names = sorted(path.name for path in Path("/dev/shm").glob("omni-peertest-*"))
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), names


@pytest.fixture(params=["memfd", "named"] if best_backing() == "memfd" else ["named"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    site = Site(request.param)
    yield site
    for process in site.processes:
        process.kill()
        site.shm.forget(process.name)
    site.shm.close()
    assert traces() == site.before


def test_tensors_go_there_and_come_back(site: Site) -> None:
    peer = site.start("there")
    for _ in range(5):
        back = site.codec.decode(peer.call("echo", site.send("there"), "here"), "there")
        assert [array[-1] for array in back] == [0, 2, 4, 6]
        del back
        assert peer.call("released", site.shm.releases()["there"]) == 0
        site.shm.released(peer.call("drop")["here"])
        assert not site.shm._out


def test_a_receiver_that_is_killed_gives_back_what_it_held(site: Site) -> None:
    peer, other = site.start("there"), site.start("other")
    assert peer.call("hold", site.send("there"), "here") == LENGTH * 6
    assert other.call("hold", site.send("other"), "here") == LENGTH * 6
    in_flight = site.send("there")
    peer.kill()
    site.shm.forget("there")
    assert {peer for _, peer in site.shm._out.values()} == {"other"}
    site.shm.released(other.call("drop")["here"])
    assert not site.shm._out
    assert in_flight


def test_an_owner_that_is_killed_leaves_what_was_opened_and_nothing_else(site: Site) -> None:
    peer = site.start("there")
    arrays = site.codec.decode(peer.call("send", "here", 4, LENGTH), "there")
    peer.kill()
    site.shm.forget("there")
    assert [array.sum() for array in arrays] == [0, LENGTH, 2 * LENGTH, 3 * LENGTH]
    assert traces()[1] == site.before[1]


def test_what_a_killed_owner_sent_cannot_be_opened_any_more(site: Site) -> None:
    peer = site.start("there")
    first = peer.call("send", "here", 1, LENGTH)
    late = peer.call("send", "here", 1, LENGTH)
    del first[1:]
    site.codec.decode(first, "there")
    peer.kill()
    site.shm.forget("there")
    with pytest.raises(WireError, match="cannot be opened"):
        site.codec.decode(late, "there")


def test_a_process_of_the_same_name_starts_afresh(site: Site) -> None:
    peer = site.start("there")
    old = site.codec.decode(peer.call("send", "here", 2, LENGTH), "there")
    peer.kill()
    site.shm.forget("there")
    peer = site.start("there")
    new = site.codec.decode(peer.call("send", "here", 2, LENGTH), "there")
    del old
    assert not site.shm.releases()
    del new
    assert peer.call("released", site.shm.releases()["there"]) == 0


def test_a_process_ends_quietly_with_tensors_open_and_in_flight(site: Site) -> None:
    peer = site.start("there")
    peer.call("hold", site.send("there"), "here")
    peer.call("send", "here", 2, LENGTH)
    if site.segments == "named":
        peer.call("close")
    assert peer.end() == ""


def test_a_process_closes_with_tensors_open(site: Site) -> None:
    peer = site.start("there")
    peer.call("hold", site.send("there"), "here")
    peer.call("close")
    assert peer.end() == ""
