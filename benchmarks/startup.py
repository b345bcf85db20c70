"""How long `omni --help` and `omni list-plugins --no-load` take, with many distributions installed.

    python benchmarks/startup.py [--distributions 300] [--rounds 40]

Wall time of whole processes, measured alternately so that a busy machine slows all of
them alike, beside `python -c pass`. The extra distributions are metadata folders on
PYTHONPATH: every second one has entry points, every tenth is a plugin.
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

import omni_host

RESULTS = Path(__file__).parent / "results" / "startup.json"
BUDGETS_MS = {"omni --help": 120, "omni list-plugins --no-load": 150}


def main() -> int:
    options = _options()
    load_before = round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.distributions):
            _write_distribution(Path(folder), index)
        times = _measure(folder, options.rounds)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "load_average_before_after": [load_before, round(os.getloadavg()[0], 2)],
        "versions": {"omni-host": omni_host.__version__, "click": version("click")},
        "distributions": options.distributions,
        "rounds": options.rounds,
        "milliseconds": {name: _summary(samples) for name, samples in times.items()},
        "budgets_milliseconds": BUDGETS_MS,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    for name, summary in result["milliseconds"].items():
        budget = f"  (budget {BUDGETS_MS[name]})" if name in BUDGETS_MS else ""
        numbers = "  ".join(f"{key} {value:6.1f}" for key, value in summary.items())
        print(f"{name:<30} {numbers} ms{budget}")
    print(f"written to {options.output}")
    return int(any(result["milliseconds"][n]["median"] > b for n, b in BUDGETS_MS.items()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--distributions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def _write_distribution(folder: Path, index: int) -> None:
    name = f"extra_{index:03}"
    metadata = folder / f"{name}-1.{index}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{index}\n")
    (metadata / "RECORD").write_text("")
    if index % 10 == 0:
        plugin = f"[omni_host.plugins]\nextra-{index} = {name}\n\n[omni_host.models]\n"
        plugin += "".join(f"Extra{index}Model{n} = {name}\n" for n in range(3))
        (metadata / "entry_points.txt").write_text(plugin)
        (folder / f"{name}.py").write_text("raise RuntimeError('imported')\n")
    elif index % 2 == 0:
        (metadata / "entry_points.txt").write_text(f"[console_scripts]\n{name} = {name}:main\n")


def _measure(folder: str, rounds: int) -> dict[str, list[float]]:
    omni = str(Path(sys.executable).parent / "omni")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "omni --help": [omni, "--help"],
        "omni list-plugins --no-load": [omni, "list-plugins", "--no-load"],
    }
    environment = {**os.environ, "PYTHONPATH": folder}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            if turn > 0:  # the first writes byte code and warms the file cache
                times[name].append((time.perf_counter() - start) * 1000)
    return times


def _summary(samples: list[float]) -> dict[str, float]:
    found = {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}
    return {key: round(value, 1) for key, value in found.items()}


def _machine() -> dict[str, str | int | None]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
