from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import zmq

from omni_host.runtime.mailbox import Mailbox
from tests.runtime.running import run, until


@contextlib.asynccontextmanager
async def mailboxes(folder, *names: str) -> AsyncIterator[list[tuple[Mailbox, list]]]:
    made = []
    for name in names:
        received: list = []
        mailbox = Mailbox(
            name,
            f"ipc://{folder}/{name}",
            lambda sender, message, received=received: received.append((sender, *message)),
        )
        mailbox.open()
        made.append((mailbox, received))
    try:
        yield made
    finally:
        for mailbox, _ in made:
            mailbox.close()


def test_messages_arrive_in_order_from_a_named_sender(tmp_path):
    async def main():
        async with mailboxes(tmp_path, "a", "b") as ((a, _), (_, received)):
            a.connect("b", f"ipc://{tmp_path}/b")
            for number in range(1000):
                a.post("b", (number, [b"frame", memoryview(b"view")]))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            await until(lambda: len(received) == 1000)
            assert [message[:2] for message in received] == [("a", n) for n in range(1000)]
            assert received[0][2] == (b"frame", b"view")

    run(main())


def test_a_peer_may_listen_later(tmp_path):
    async def main():
        async with mailboxes(tmp_path, "a") as ((a, _),):
            a.connect("b", f"ipc://{tmp_path}/b")
            a.post("b", (1,))
            await asyncio.sleep(0.1)
            async with mailboxes(tmp_path, "b") as ((_, received),):
                await until(lambda: received == [("a", 1)])

    run(main())


def test_a_forgotten_peer_is_neither_written_to_nor_heard(tmp_path):
    async def main():
        async with mailboxes(tmp_path, "a", "b") as ((a, heard), (b, received)):
            a.connect("b", f"ipc://{tmp_path}/b")
            b.connect("a", f"ipc://{tmp_path}/a")
            a.forget("b")
            a.connect("b", f"ipc://{tmp_path}/b")
            a.post("b", (1,))
            b.post("a", (2,))
            await asyncio.sleep(0.2)
            assert heard == received == []
            assert not a.connected("b")

    run(main())


def test_what_is_malformed_is_dropped_and_the_next_message_read(tmp_path, caplog):
    async def main():
        async with mailboxes(tmp_path, "a", "b") as ((a, _), (_, received)):
            with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
                stranger.connect(f"ipc://{tmp_path}/b")
                stranger.send(b"\xc1 no msgpack")
                await until(lambda: "malformed" in caplog.text)
            a.connect("b", f"ipc://{tmp_path}/b")
            a.post("b", (1,))
            await until(lambda: received == [("a", 1)])

    run(main())
