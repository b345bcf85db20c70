"""How fast tensors cross between two processes, and what encoding a payload costs.

    python benchmarks/transports.py [--rounds 60]

A hop lasts from before `encode` in one process until `decode` has returned in the other,
over a ZeroMQ socket; memcpy is `numpy.copyto` between two arrays of the same size. Both are
measured in turns, so a busy machine slows them alike. Medians of float32 tensors. The ratio
is also given in CPU time, of all threads of both processes: what others on the machine do
changes it less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zmq

import omni_host
from omni_host.runtime.wire import PayloadCodec
from omni_host.transports import TransportContext
from omni_host.transports.inline import InlineTransport
from omni_host.transports.shm import ShmTransport

RESULTS = Path(__file__).parent / "results" / "transports.json"
SIZES = {"64 KB": 64 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20, "64 MB": 64 << 20}
AIM_OF_MEMCPY = {"16 MB": 0.6, "64 MB": 0.6}
PAYLOADS = {
    "1 KB of plain data": {"text": "x" * 900, "voice": "heart", "speed": 1.0, "ids": [*range(20)]},
    "1,920 float32": {"audio": np.zeros(1920, np.float32), "index": 7},
}


class Spent(NamedTuple):
    """Nanoseconds, on the clock and of CPU."""

    wall: int
    cpu: int


class End:
    """One of the two processes."""

    def __init__(self, process: str) -> None:
        context = TransportContext(process=process, run="benchmark")
        self.shm = ShmTransport(context)
        transports = {"shm": self.shm, "inline": InlineTransport(context)}
        self.codec = PayloadCodec(process, transports)
        self.socket = zmq.Context.instance().socket(zmq.PAIR)

    def close(self) -> None:
        self.socket.close()
        self.shm.close()
        zmq.Context.instance().term()


def receive(address: str) -> None:
    """The receiving process: say when each tensor was there, and what it cost, and release it."""
    end = End("receiver")
    end.socket.connect(address)
    used = time.process_time_ns()
    while (frames := end.socket.recv_multipart(copy=False))[0].bytes != b"end":
        value = end.codec.decode([frame.buffer for frame in frames], "sender")
        arrived = time.perf_counter_ns()
        assert value["x"][-1] == 1
        del value
        before, used = used, time.process_time_ns()
        report = [arrived, used - before, end.shm.releases().get("sender", [])]
        end.socket.send(msgpack.packb(report))
    end.close()


def send(end: End, array: Any, transport: str) -> Spent:
    """One hop."""
    started, used = time.perf_counter_ns(), time.process_time_ns()
    end.socket.send_multipart(end.codec.encode({"x": array}, transport, "receiver"), copy=False)
    arrived, used_there, tokens = msgpack.unpackb(end.socket.recv())
    end.shm.released(tokens)
    return Spent(arrived - started, time.process_time_ns() - used + used_there)


def copy(target: Any, source: Any) -> Spent:
    started, used = time.perf_counter_ns(), time.process_time_ns()
    np.copyto(target, source)
    return Spent(time.perf_counter_ns() - started, time.process_time_ns() - used)


def hops(end: End, size: int, rounds: int) -> dict[str, float]:
    array, target = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
    taken: dict[str, list[Spent]] = {"memcpy": [], "shm": [], "inline": []}
    for name in ("shm", "inline"):
        for turn in range(rounds + 3):
            spent = {"memcpy": copy(target, array), name: send(end, array, name)}
            if turn >= 3:  # before that, memory is touched for the first time
                for what, one in spent.items():
                    taken[what].append(one)
    wall = {name: statistics.median(one.wall for one in all_) for name, all_ in taken.items()}
    cpu = {name: statistics.median(one.cpu for one in all_) for name, all_ in taken.items()}
    return {
        **{f"{name} GB/s": round(size / spent, 2) for name, spent in wall.items()},
        "shm us": round(wall["shm"] / 1000, 1),
        "shm of memcpy": round(wall["memcpy"] / wall["shm"], 2),
        "in CPU time": round(cpu["memcpy"] / cpu["shm"], 2),
    }


def codec_us(end: End, payload: Any, rounds: int) -> dict[str, float]:
    frames = end.codec.encode(payload, "shm", "receiver")
    calls = {
        "encode": lambda: end.codec.encode(payload, "shm", "receiver"),
        "decode": lambda: end.codec.decode(frames, "receiver"),
    }
    return {name: round(_call_us(call, rounds), 2) for name, call in calls.items()}


def _call_us(call: Any, rounds: int) -> float:
    samples: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for _ in range(500):
            call()
        samples.append((time.perf_counter_ns() - started) / 500 / 1000)
    return statistics.median(samples)


def measure(rounds: int) -> dict[str, Any]:
    end = End("sender")
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/socket"
        end.socket.bind(address)
        receiver = subprocess.Popen([sys.executable, __file__, "--receive", address])
        found = {
            "hop": {name: hops(end, size, rounds) for name, size in SIZES.items()},
            "microseconds": {name: codec_us(end, p, rounds) for name, p in PAYLOADS.items()},
        }
        end.socket.send(b"end")
        receiver.wait()
        end.close()
    return found


def main() -> int:
    options = _options()
    if options.receive:
        receive(options.receive)
        return 0
    found = measure(options.rounds)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load average": os.getloadavg()[0],
        },
        "versions": {"omni-host": omni_host.__version__}
        | {name: version(name) for name in ("msgpack", "numpy", "pyzmq")},
        "rounds": options.rounds,
        **found,
        "aims_of_memcpy": AIM_OF_MEMCPY,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    for name, numbers in (found["hop"] | found["microseconds"]).items():
        print(f"{name:<20}", "  ".join(f"{key} {value:8.2f}" for key, value in numbers.items()))
    print(f"written to {options.output}")
    return int(
        any(found["hop"][size]["shm of memcpy"] < aim for size, aim in AIM_OF_MEMCPY.items())
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
