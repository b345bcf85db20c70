"""Messages that come too early, too late, or from a process that has ended."""

from __future__ import annotations

import asyncio
from typing import Any

from omni_host.graph import Edge, Output, Task
from omni_host.runtime import messages as m
from omni_host.runtime.exchange import Exchange
from omni_host.runtime.stage_host import StageHost
from tests.runtime.deployments import deploy, stage
from tests.runtime.running import run

OPEN = (m.OPEN, 7, "id", "t", (), None)


class Desk:
    """Mailbox and codec of a worker: posts and discarded values are written down."""

    def __init__(self) -> None:
        self.posts: list[tuple[Any, ...]] = []
        self.discarded: list[Any] = []

    def post(self, peer: str, message: m.Message) -> None:
        self.posts.append((peer, *message))

    def encode(self, value: Any, transport: str, peer: str) -> list[Any]:
        return [value]

    def decode(self, frames: Any, owner: str) -> Any:
        return frames[0]

    def discard(self, frames: Any, owner: str) -> None:
        self.discarded.append(frames[0])

    def results(self) -> list[Any]:
        return [post[4][0] for post in self.posts if post[1] == m.RESULT]


class Toy:
    async def process(self, job):
        await job.emit(await job.payload())
        async for chunk in job.stream():
            await job.emit(chunk)


async def exchange() -> tuple[Exchange, Desk]:
    """The exchange of process `b`, with a stage fed by `a`."""
    deployment = deploy(
        (stage("a", "Any"), stage("b", "Any")),
        (Edge(source="a", target="b"), Edge(source="a", target="b", kind="stream", credits=2)),
        (Task(name="t", entry=("a",), outputs=(Output(stage="b", modality="data"),)),),
    )
    desk = Desk()
    made = Exchange(deployment, "b", 8, desk, desk)  # type: ignore[arg-type]
    host = StageHost(deployment.stages[1].spec, made)
    await host.build(Toy)
    made.add(host)
    made.meet("a", "a.1")
    return made, desk


def open_request(made: Exchange, number: int) -> None:
    made.handlers[m.OPEN]("host", number, f"id{number}", "t", (), None)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_comes_before_the_request_is_opened_is_kept():
    async def main():
        made, desk = await exchange()
        made.deliver("a.1", (m.CHUNK, 7, "b", "a", ["one"]))
        made.deliver("a.1", (m.PAYLOAD, 7, "b", "a", ["payload"]))
        made.deliver("a.1", (m.END, 7, "b", "a"))
        await turns()
        assert desk.posts == []
        open_request(made, 7)
        await turns()
        assert desk.results() == ["payload", "one"]
        assert desk.posts[-1][:4] == ("host", m.FINISHED, 7, "b")
        assert desk.discarded == []

    run(main())


def test_what_was_kept_for_a_request_that_never_comes_is_dropped():
    async def main():
        made, desk = await exchange()
        made.deliver("a.1", (m.PAYLOAD, 6, "b", "a", ["of another life"]))
        open_request(made, 7)
        assert desk.discarded == ["of another life"]
        made.handlers[m.ABORT]("host", 7)
        await turns()

    run(main())


def test_what_comes_after_the_request_was_aborted_is_dropped():
    async def main():
        made, desk = await exchange()
        open_request(made, 7)
        await turns()
        made.handlers[m.ABORT]("host", 7)
        await turns()
        assert desk.posts == [("host", m.DROPPED, 7, "b")]
        made.deliver("a.1", (m.PAYLOAD, 7, "b", "a", ["late"]))
        made.deliver("a.1", (m.CHUNK, 7, "b", "a", ["later"]))
        made.deliver("a.1", (m.END, 7, "b", "a"))
        made.handlers[m.ABORT]("host", 7)
        await turns()
        assert desk.discarded == ["late", "later"]
        assert len(desk.posts) == 1

    run(main())


def test_a_job_that_waits_for_an_ended_process_fails():
    async def main():
        made, desk = await exchange()
        open_request(made, 7)
        open_request(made, 8)
        for part in ((m.PAYLOAD, 8, "b", "a", ["whole"]), (m.END, 8, "b", "a")):
            made.deliver("a.1", part)
        made.part("a", "a.1")
        await turns()
        failed = [post for post in desk.posts if post[1] == m.FAILED]
        assert [(post[2], post[3], post[4]["code"]) for post in failed] == [(7, "b", "OMNI-S003")]
        assert desk.results() == ["whole"]

    run(main())


def test_credits_come_back_in_lumps_and_a_reader_that_stops_says_so():
    class First(Toy):
        async def process(self, job):
            await anext(job.stream())

    async def main():
        made, desk = await exchange()
        host = StageHost(stage("b", "Any"), made)
        await host.build(First)
        made.add(host)
        open_request(made, 7)
        made.deliver("a.1", (m.CHUNK, 7, "b", "a", [1]))
        await turns()
        returned = [post for post in desk.posts if post[1] == m.CREDIT]
        assert returned == [
            ("a.1", m.CREDIT, 7, "a", "b", 1),
            ("a.1", m.CREDIT, 7, "a", "b", m.CLOSED),
        ]

    run(main())


def test_a_message_that_cannot_be_handed_on_fails_its_request_alone():
    async def main():
        made, desk = await exchange()
        open_request(made, 7)
        open_request(made, 8)
        await turns()
        decode = desk.decode

        def broken(frames: Any, owner: str) -> Any:
            if frames == ["broken"]:
                raise OSError("the segment is gone")
            return decode(frames, owner)

        desk.decode = broken  # type: ignore[method-assign]
        made.deliver("a.1", (m.PAYLOAD, 7, "b", "a", ["broken"]))
        made.deliver("a.1", (m.PAYLOAD, 8, "b", "a", ["payload"]))
        made.deliver("a.1", (m.END, 8, "b", "a"))
        await turns()
        (failed,) = (post for post in desk.posts if post[1] == m.FAILED)
        assert failed[2:4] == (7, "b")
        assert "OSError: the segment is gone" in failed[4]["message"]
        assert desk.posts[-1][:4] == ("host", m.FINISHED, 8, "b")

    run(main())
