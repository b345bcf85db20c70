"""What the runtime itself costs: toy stages, in processes of their own and in one.

    python -m benchmarks.runtime [--seconds 3] [--json]

Hop: 1 KB from one stage to the next. Request: through three stages, one client, then
many. Stream: three stages, eight requests, chunks of 1,920 float32. All medians; CPU is
that of all processes together.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator
from itertools import count, pairwise
from typing import Any

import psutil

from omni_host.graph import Edge, Output, Task
from omni_host.runtime import Limits, Pipeline, Request
from tests.runtime.deployments import deploy, plugins, stage

CONCURRENCY = (1, 8, 32, 128)
STREAMS = 8
SAMPLES = 1920

_ids = count()


@contextlib.asynccontextmanager
async def running(toys: tuple[str, ...], kind: Any, *, fused: bool) -> AsyncIterator[Pipeline]:
    names = tuple(f"s{index}" for index in range(len(toys)))
    deployment = deploy(
        tuple(stage(name, toy) for name, toy in zip(names, toys, strict=True)),
        tuple(Edge(source=source, target=target, kind=kind) for source, target in pairwise(names)),
        (Task(name="t", entry=names[:1], outputs=(Output(stage=names[-1], modality="data"),)),),
        fused=fused,
    )
    pipeline = Pipeline(deployment, plugins(), limits=Limits(max_running=256))
    await pipeline.start()
    try:
        yield pipeline
    finally:
        await pipeline.stop(1.0)


async def ask(pipeline: Pipeline, payload: dict[str, Any]) -> list[Any]:
    request = Request(id=str(next(_ids)), task="t", payload=payload)
    async with pipeline.submit(request) as generation:
        return [chunk.data async for chunk in generation]


async def hop_ms(seconds: float, *, fused: bool) -> float:
    async with running(("Stamp", "Hop"), "payload", fused=fused) as pipeline:
        hops: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            hops.extend(await ask(pipeline, {}))
        return statistics.median(hops[10:]) / 1e6


async def requests(seconds: float, toy: str, *, fused: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    async with running((toy,) * 3, "payload", fused=fused) as pipeline:
        for clients in CONCURRENCY:
            took: list[float] = []
            end = time.perf_counter() + seconds

            async def client(end: float, took: list[float]) -> None:
                while (began := time.perf_counter()) < end:
                    await ask(pipeline, {"text": "x" * 1000})
                    took.append(time.perf_counter() - began)

            await asyncio.gather(*(client(end, took) for _ in range(clients)))
            found[f"{toy.lower()} requests/s, {clients} clients"] = len(took) / seconds
            if clients == 1:
                found[f"{toy.lower()} request ms"] = statistics.median(took) * 1000
    return found


async def streams(seconds: float, *, fused: bool) -> dict[str, float]:
    async with running(("Count", "Relay", "Relay"), "stream", fused=fused) as pipeline:
        each = 2000
        payload = {"count": each, "samples": SAMPLES}
        chunks, used, took = 0, cpu_s(pipeline), time.perf_counter()
        while time.perf_counter() - took < seconds:
            await asyncio.gather(*(ask(pipeline, payload) for _ in range(STREAMS)))
            chunks += STREAMS * each
        took = time.perf_counter() - took
        used = cpu_s(pipeline) - used
    return {"chunks/s": chunks / took, "CPU us/chunk": used / chunks * 1e6}


def cpu_s(pipeline: Pipeline) -> float:
    pids = {stage.pid for stage in pipeline.snapshot().stages}
    times = [psutil.Process(pid).cpu_times() for pid in (*pids, None)]
    return sum(spent.user + spent.system for spent in times)


async def measure(seconds: float, *, fused: bool) -> dict[str, float]:
    return {
        "hop ms": await hop_ms(seconds, fused=fused),
        **await requests(seconds, "Echo", fused=fused),
        **await requests(seconds, "Join", fused=fused),
        **await streams(seconds, fused=fused),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {
        name: asyncio.run(measure(options.seconds, fused=fused))
        for name, fused in (("processes", False), ("fused", True))
    }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':32}{'processes':>12}{'fused':>12}")
    for name, value in found["processes"].items():
        print(f"{name:32}{value:12.3f}{found['fused'][name]:12.3f}")


if __name__ == "__main__":
    main()
