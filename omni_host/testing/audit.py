"""Watching what code opens, starts and changes, by Python's audit events.

What native code does by itself raises no events; the graph of a model is built by Python.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

__all__ = ["Audit"]

_LARGE_BYTES = 2**20
_WEIGHTS = (
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".npy",
    ".npz",
    ".onnx",
    ".pt",
    ".pth",
    ".safetensors",
)
_CODE = (".py", ".pyc", ".so")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STARTS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
)
_CHANGES = frozenset(
    {
        "os.chdir",
        "os.chmod",
        "os.link",
        "os.mkdir",
        "os.putenv",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
        "os.unsetenv",
    }
)


class Audit:
    """Within its `with` block, `events` gathers a line for each thing that was touched.

    Reading small files is nothing of the kind: a family may look at a `generation_config.json`
    that lies beside the `config.json`. The hook itself stays for the life of the process.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self._watching = False
        sys.addaudithook(self._hear)

    def __enter__(self) -> Audit:
        self._watching = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._watching = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        if event == "open":
            what = _opened(*arguments)
        elif event == "subprocess.Popen" or event in _STARTS:
            what = f"started a process ({event} {arguments[0] if arguments else ''!r})"
        elif event.startswith("socket."):
            what = f"used a socket ({event})"
        elif event in _CHANGES:
            what = f"changed something outside ({event} {arguments[0]!r})"
        else:
            return
        if what:
            self.events.append(what)


def _opened(path: object, mode: object, flags: object) -> str:
    """What to say about a file that is opened; nothing if that is fine."""
    if not isinstance(path, (str, bytes)):
        return ""
    name = os.fsdecode(path)
    if set(mode if isinstance(mode, str) else "") & set("wax+"):
        return f"wrote {name}"
    if isinstance(flags, int) and flags & _WRITING:
        return f"wrote {name}"
    if name.endswith(_WEIGHTS):
        return f"opened weights, {name}"
    if not name.endswith(_CODE) and _size(name) > _LARGE_BYTES:
        return f"opened a large file, {name}"
    return ""


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size  # noqa: PTH116 - pathlib could raise events of its own
    except OSError:
        return 0
