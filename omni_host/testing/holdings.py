"""What a model's processes hold, as far as the system can tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = [
    "Holdings",
    "end",
    "holdings",
    "mapped_shared_memory",
    "processes_below",
    "shared_memory",
]

_FOLDER = Path("/dev/shm")  # noqa: S108 - looked at, never written to


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """`counts` of descriptors, threads and child processes, by what and whose they are.

    `shared_memory` are the machine's segments, which do not tell whose they are.
    """

    counts: Mapping[str, int]
    shared_memory: frozenset[str]


def holdings(pids: Mapping[str, int]) -> Holdings:
    """Count what each of the processes `pids`, by name, holds."""
    counts: dict[str, int] = {}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        counts[f"descriptors of process {name}"] = process.num_fds()
        counts[f"threads of process {name}"] = process.num_threads()
        counts[f"children of process {name}"] = len(process.children(recursive=True))
    return Holdings(counts=counts, shared_memory=shared_memory())


def shared_memory() -> frozenset[str]:
    """The files of `/dev/shm`; nothing where there is none."""
    return frozenset(str(path) for path in _FOLDER.iterdir()) if _FOLDER.is_dir() else frozenset()


def mapped_shared_memory(processes: Iterable[psutil.Process]) -> frozenset[str]:
    """Those that the processes have mapped; nothing where there is no `/proc`."""
    found: set[str] = set()
    for process in processes:
        maps = Path(f"/proc/{process.pid}/maps")
        for line in maps.read_text().splitlines() if maps.exists() else ():
            path = line.split(maxsplit=5)[5:]
            found.update(name for name in path if name.startswith(f"{_FOLDER}/"))
    return frozenset(found)


def processes_below(pids: Mapping[str, int]) -> list[psutil.Process]:
    """The processes `pids` and all that they have started."""
    roots = [psutil.Process(pid) for pid in pids.values()]
    return [*roots, *(child for root in roots for child in root.children(recursive=True))]


def end(processes: list[psutil.Process], wait_s: float) -> list[str]:
    """Wait for the processes to end; those that do not are killed, and told."""
    _, alive = psutil.wait_procs(processes, timeout=wait_s)
    told = [f"process {process.pid} ({_command(process)})" for process in alive]
    for process in alive:
        process.kill()
    return told


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return "ended meanwhile"
