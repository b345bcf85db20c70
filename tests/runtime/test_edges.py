"""Every kind of edge, in one process and in one for each stage."""

from __future__ import annotations

import numpy as np
import pytest

from omni_host.errors import InvalidRequestError
from omni_host.graph import Edge, Output, Task
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import answer, ask, request, run, running


@pytest.fixture(params=[False, True], ids=["processes", "fused"])
def fused(request):
    return request.param


def data(name: str) -> Output:
    return Output(stage=name, modality="data")


def test_a_payload_goes_from_stage_to_stage(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Join"), stage("b", "Forward"), stage("c", "AsyncJoin")),
            (Edge(source="a", target="b"), Edge(source="b", target="c")),
            (Task(name="t", entry=("a",), outputs=(data("c"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline) == ["hi>a>b>c"]

    run(main())


def test_fan_out_and_fan_in(fused):
    async def main():
        deployment = deploy(
            (
                *(stage(name, "Join") for name in "abc"),
                stage("d", "Forward"),
                stage("e", "Join"),
            ),
            (
                Edge(source="a", target="b"),
                Edge(source="a", target="c"),
                Edge(source="b", target="d"),
                Edge(source="c", target="d"),
                Edge(source="a", target="e"),
                Edge(source="d", target="e"),
            ),
            (Task(name="t", entry=("a",), outputs=(data("e"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline) == ["hi>a+hi>a>b+hi>a>c>d>e"]

    run(main())


def test_several_entries_get_the_same_payload(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Join"), stage("b", "Join"), stage("c", "Join")),
            (Edge(source="a", target="c"), Edge(source="b", target="c")),
            (Task(name="t", entry=("a", "b", "c"), outputs=(data("c"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline) == ["hi+hi>a+hi>b>c"]

    run(main())


def test_a_stream_arrives_in_order_through_several_stages(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Count"), stage("b", "Relay"), stage("c", "Relay")),
            (
                Edge(source="a", target="b", kind="stream", credits=1),
                Edge(source="b", target="c", kind="stream", credits=5),
            ),
            (Task(name="t", entry=("a",), outputs=(data("c"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline, payload={"count": 200}) == list(range(200))
            arrays = await answer(pipeline, payload={"count": 20, "samples": 40_000})
            assert [array.shape for array in arrays] == [(40_000,)] * 20
            assert [float(array[-1]) for array in arrays] == list(range(20))
            assert arrays[0].dtype == np.float32

    run(main())


def test_a_stream_starts_before_the_payload(fused):
    # The payload is sent after more chunks than there are credits, so it can only
    # come if the chunks were read before.
    async def main():
        deployment = deploy(
            (
                stage("a", "StreamThenPayload"),
                stage("b", "Forward"),
                stage("c", "ChunksBeforePayload"),
            ),
            (
                Edge(source="a", target="c", kind="stream", credits=2),
                Edge(source="a", target="b"),
                Edge(source="b", target="c"),
            ),
            (Task(name="t", entry=("a",), outputs=(data("c"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            assert await answer(pipeline) == [190, "told>b"]

    run(main())


def test_a_reader_may_have_enough_of_a_stream(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Count"), stage("b", "First"), stage("c", "Relay")),
            (
                Edge(source="a", target="b", kind="stream", credits=2),
                Edge(source="a", target="c", kind="stream", credits=2),
            ),
            (Task(name="t", entry=("a",), outputs=(data("b"), data("c"))),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            found = await answer(pipeline, payload={"count": 50})
            assert sorted(found) == [0, *range(50)]

    run(main())


def test_two_terminals_and_routing_by_modality(fused):
    async def main():
        deployment = deploy(
            tuple(stage(name, "Join") for name in ("prepare", "ears", "thinker", "talker")),
            (
                Edge(source="prepare", target="ears", when=frozenset({"in:audio"})),
                Edge(source="prepare", target="thinker"),
                Edge(source="ears", target="thinker"),
                Edge(source="thinker", target="talker", when=frozenset({"out:speech"})),
            ),
            (
                Task(
                    name="t",
                    entry=("prepare",),
                    outputs=(
                        Output(stage="thinker", modality="text"),
                        Output(stage="talker", modality="speech", sample_rate=8000),
                    ),
                ),
            ),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            read = await ask(pipeline, inputs=frozenset({"text"}), outputs=frozenset({"text"}))
            assert [(c.modality, c.data, c.sample_rate) for c in read] == [
                ("text", "hi>prepare>thinker", None)
            ]
            heard = await ask(
                pipeline, inputs=frozenset({"audio"}), outputs=frozenset({"text", "speech"})
            )
            thought = "hi>prepare+hi>prepare>ears>thinker"
            assert {(c.modality, c.data, c.sample_rate) for c in heard} == {
                ("text", thought, None),
                ("speech", f"{thought}>talker", 8000),
            }
            spoken = await ask(pipeline, outputs=frozenset({"speech"}))
            assert [c.modality for c in spoken] == ["speech"]
            with pytest.raises(InvalidRequestError, match="does not yield video"):
                pipeline.submit(request(outputs=frozenset({"video"})))

    run(main())


def test_large_arrays_go_both_ways(fused):
    async def main():
        deployment = deploy(
            (stage("a", "Arrays"), stage("b", "Arrays")),
            (Edge(source="a", target="b"),),
            (Task(name="t", entry=("a",), outputs=(data("b"),)),),
            fused=fused,
        )
        async with running(deployment) as pipeline:
            for size in (10, 100_000, 1_000_000):
                array = np.arange(size, dtype=np.int64)
                (found,) = await answer(pipeline, payload={"array": array})
                np.testing.assert_array_equal(found, np.concatenate([array] * 4) * 4)
                del found

    run(main())
