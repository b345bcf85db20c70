"""Segments: memory of two processes, without a trace when they have ended."""

from __future__ import annotations

import gc
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from omni_host.errors import WireError
from omni_host.transports.segments import Address, Backing, Segment, attach, best_backing

BACKINGS: list[Backing] = ["memfd", "named"] if best_backing() == "memfd" else ["named"]


@pytest.fixture(params=BACKINGS)
def backing(request: pytest.FixtureRequest) -> Backing:
    return request.param


@pytest.fixture
def name() -> str:
    return f"omni-segtest-{secrets.token_hex(4)}"


def test_what_one_end_writes_the_other_reads(name: str, backing: Backing) -> None:
    segment = Segment(name, 8192, backing)
    memory = attach(segment.address)
    segment.memory[5000] = 7
    assert memory[5000] == 7
    segment.close()


def test_memory_outlives_its_segment_as_long_as_it_is_mapped(name: str, backing: Backing) -> None:
    segment = Segment(name, 4096, backing)
    segment.memory[0] = 9
    memory = attach(segment.address)
    segment.close()
    del segment
    assert memory[0] == 9


def test_a_closed_segment_cannot_be_opened(name: str, backing: Backing) -> None:
    segment = Segment(name, 4096, backing)
    segment.close()
    with pytest.raises(WireError, match="cannot be opened"):
        attach(segment.address)


def test_a_size_that_is_not_the_segments_is_refused(name: str, backing: Backing) -> None:
    segment = Segment(name, 4096, backing)
    address = segment.address
    with pytest.raises(WireError, match="cannot be opened"):
        attach(Address(pid=address.pid, fd=address.fd, name=name, size=1 << 20))
    segment.close()


def test_a_name_that_is_taken_is_refused(name: str) -> None:
    segment = Segment(name, 4096, "named")
    with pytest.raises(WireError, match="cannot be had"):
        Segment(name, 4096, "named")
    segment.close()


def test_more_memory_than_there_is_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="cannot be had"):
        Segment(name, 1 << 62, "named")
    assert not _names(name)


@pytest.mark.skipif(sys.platform != "linux", reason="memfd")
def test_a_descriptor_that_became_something_else_is_refused(name: str, tmp_path: Path) -> None:
    segment = Segment(name, 4096, "memfd")
    stranger = tmp_path / "stranger"
    stranger.write_bytes(bytes(4096))
    os.mkfifo(tmp_path / "pipe")
    before = _descriptors()
    for fd in (os.open(stranger, os.O_RDWR), os.open(tmp_path / "pipe", os.O_RDWR)):
        with pytest.raises(WireError, match="its owner has closed it"):
            attach(Address(pid=os.getpid(), fd=fd, name=name, size=4096))
        os.close(fd)
    assert _descriptors() == before
    segment.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memfd")
def test_a_kernel_owned_segment_has_no_name_and_no_child_inherits_it(name: str) -> None:
    segment = Segment(name, 4096, "memfd")
    assert not _names(name)
    program = "import os; print(os.listdir('/proc/self/fd'))"
    listed = subprocess.check_output([sys.executable, "-c", program], close_fds=False, text=True)
    assert repr(str(segment.address.fd)) not in listed
    segment.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_leaves_the_name_alone(name: str) -> None:
    segment = Segment(name, 4096, "named")
    child = os.fork()
    if child == 0:
        segment.close()
        os._exit(0)
    os.waitpid(child, 0)
    attach(segment.address)
    segment.close()
    assert not _names(name)


def _names(prefix: str) -> list[Path]:
    folder = Path("/dev/shm")
    return list(folder.glob(f"{prefix}*")) if folder.is_dir() else []


def _descriptors() -> int:
    gc.collect()  # what earlier tests have let go of does not count
    return len(list(Path("/proc/self/fd").iterdir()))
