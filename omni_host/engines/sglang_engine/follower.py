"""The process of a rank that repeats what rank 0 decides; see `ranks`."""

from __future__ import annotations

import sys

from omni_host.engines.sglang_engine.ranks import Start
from omni_host.engines.sglang_engine.symbols import load
from omni_host.engines.sglang_engine.worker import Worker


def main() -> int:
    """Read a `Start`, join, and repeat passes until rank 0 ends them or itself ends."""
    start = Start.from_json(sys.stdin.buffer.read())
    worker = Worker(load(start.description.device), start)
    try:
        worker.follow()
    except RuntimeError as error:
        # torch raises it when rank 0 is gone, which says more about what went wrong.
        print(f"rank {start.rank} ends: {error}", file=sys.stderr)  # noqa: T201 - its only voice
        return 1
    worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
