"""CPU time of audio formats and filters, per chunk of 80 ms at 24 kHz.

    python benchmarks/formats.py [--rounds 5] [--seconds 10]

Time of this thread alone, so a busy machine changes it little. `first` is how much audio
goes in before the first byte of audio comes out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omni_host.audio import FORMATS, Resampler, Tempo, decode

RESULTS = Path(__file__).parent / "results" / "formats.json"
RATE = 24_000
CHUNK = 1_920
FILTERS: dict[str, Callable[[], Resampler | Tempo]] = {
    "24 to 48 kHz": lambda: Resampler(RATE, 48_000),
    "24 to 16 kHz": lambda: Resampler(RATE, 16_000),
    "speed 0.5": lambda: Tempo(RATE, 0.5),
    "speed 1.25": lambda: Tempo(RATE, 1.25),
    "speed 4": lambda: Tempo(RATE, 4.0),
}


def main() -> int:
    options = _options()
    chunks = np.split(_voice(options.seconds), options.seconds * RATE // CHUNK)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {"av": version("av"), "numpy": version("numpy")},
        "formats": {name: _format(name, chunks, options.rounds) for name in FORMATS},
        "filters": {name: _filter(make, chunks, options.rounds) for name, make in FILTERS.items()},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    _print(result)
    return 0


def _format(name: str, chunks: Sequence[NDArray[np.float32]], rounds: int) -> dict[str, Any]:
    made = [_run(lambda: FORMATS[name].encoder(RATE, whole=False), chunks) for _ in range(rounds)]
    data = b"".join(made[0]["out"])
    result = {
        **_summary(made),
        "first_ms": _first_ms(name, np.concatenate(chunks)),
        "kbit_per_s": round(len(data) * 8 / (len(chunks) * CHUNK / RATE) / 1000, 1),
    }
    if name != "pcm":
        started = time.thread_time()
        decode(data, RATE)
        result["decode_us"] = round((time.thread_time() - started) / len(chunks) * 1e6, 1)
    return result


def _filter(
    make: Callable[[], Any], chunks: Sequence[NDArray[np.float32]], rounds: int
) -> dict[str, Any]:
    return _summary([_run(make, chunks) for _ in range(rounds)])


def _run(make: Callable[[], Any], chunks: Sequence[NDArray[np.float32]]) -> dict[str, Any]:
    started = time.thread_time()
    target = make()
    times, out = [time.thread_time() - started], []
    for chunk in chunks:
        started = time.thread_time()
        out.append(target.write(chunk))
        times.append(time.thread_time() - started)
    out.append(target.finish())
    return {"open": times[0], "chunks": times[1:], "out": out}


def _summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    times = sorted(1e6 * seconds for run in runs for seconds in run["chunks"])
    return {
        "open_us": round(statistics.median(run["open"] for run in runs) * 1e6, 1),
        "chunk_us": round(statistics.median(times), 1),
        "chunk_us_p99": round(times[int(len(times) * 0.99)], 1),
    }


def _first_ms(name: str, samples: NDArray[np.float32]) -> float:
    encoder = FORMATS[name].encoder(RATE, whole=False)
    encoder.write(samples[:1])  # what precedes the audio
    step = RATE // 1000
    for start in range(1, len(samples), step):
        if encoder.write(samples[start : start + step]):
            return (start + step - 1) / step
    return float("nan")


def _voice(seconds: int) -> NDArray[np.float32]:
    """Harmonics of a gliding pitch over a little noise, swelling like syllables."""
    at = np.arange(seconds * RATE) / RATE
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * 0.7 * at)) / RATE
    harmonics = sum(np.sin(number * phase) / number for number in range(1, 30))
    noise = np.random.default_rng(0).standard_normal(len(at)) * 0.02
    return ((0.2 * harmonics + noise) * (0.55 - 0.45 * np.cos(8 * np.pi * at))).astype(np.float32)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of audio, in steps of 2")
    return parser.parse_args()


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _print(result: dict[str, Any]) -> None:
    print(f"{'':14}{'open':>10}{'chunk':>10}{'p99':>10}{'decode':>10}{'first':>8}{'kbit/s':>8}")
    for name, row in {**result["formats"], **result["filters"]}.items():
        columns = (row["open_us"], row["chunk_us"], row["chunk_us_p99"], row.get("decode_us", ""))
        print(f"{name:14}" + "".join(f"{value:>10}" for value in columns), end="")
        print(f"{row.get('first_ms', ''):>8}{row.get('kbit_per_s', ''):>8}")


if __name__ == "__main__":
    sys.exit(main())
