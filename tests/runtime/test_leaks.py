from __future__ import annotations

import asyncio

import numpy as np
import pytest

from omni_host.graph import Edge, Output, Task
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, left_behind, run, running, until, worker_descriptors


@pytest.mark.parametrize("fused", [False, True], ids=["processes", "fused"])
def test_many_requests_leave_everything_as_it_was(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Arrays"), stage("b", "Arrays")),
            (Edge(source="a", target="b"),),
            (Task(name="t", entry=("a",), outputs=(Output(stage="b", modality="data"),)),),
            fused=fused,
        )
        outside = left_behind()
        array = np.zeros(50_000, np.float32)
        async with running(deployment) as pipeline:
            for _ in range(10):
                await answer(pipeline, payload={"array": array})
            before, tasks = left_behind(), len(asyncio.all_tasks())
            inside = worker_descriptors()
            for _ in range(300):
                await answer(pipeline, payload={"array": array})
            await until(lambda: pipeline.snapshot().running == 0)
            assert left_behind() == before
            assert worker_descriptors() == inside
            assert len(asyncio.all_tasks()) == tasks
        assert left_behind() == outside

    run(main())
