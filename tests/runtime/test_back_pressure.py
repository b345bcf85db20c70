from __future__ import annotations

import asyncio

import pytest

from omni_host.graph import Edge, Output, Task
from omni_host.runtime import Limits
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import request, run, running


@pytest.mark.parametrize("fused", [False, True], ids=["processes", "fused"])
def test_a_slow_client_stops_every_stage_before_it(fused, tmp_path):
    async def main():
        log = tmp_path / "made"
        deployment = deploy(
            (stage("a", "CountTo", server_args={"log": str(log)}), stage("b", "Relay")),
            (Edge(source="a", target="b", kind="stream", credits=4),),
            (Task(name="t", entry=("a",), outputs=(Output(stage="b", modality="number"),)),),
            fused=fused,
        )
        async with running(deployment, Limits(result_credits=3)) as pipeline:
            async with pipeline.submit(request(payload={"count": 1000})) as generation:
                assert (await anext(generation)).data == 0
                await settled(log)
                # Unread: 3 at the client and 4 at the relay, one in its hand and one in
                # the counter's; one read, and lumps of credits may be on their way back.
                assert 5 <= made(log) <= 11
                rest = [chunk.data async for chunk in generation]
            assert rest == list(range(1, 1000))
            assert made(log) == 1000

    run(main())


def made(log) -> int:
    return int(log.read_text() or 0) if log.exists() else 0


async def settled(log) -> None:
    before = -1
    while made(log) != before or before < 1:
        before = made(log)
        await asyncio.sleep(0.2)
