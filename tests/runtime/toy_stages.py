"""Small stages without torch, for the tests and the benchmark of the runtime."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omni_host.errors import InvalidRequestError
from omni_host.stage import Call, Job, StageContext


class Toy:
    def __init__(self, context: StageContext) -> None:
        self.name = context.name
        self.args = context.server_args
        self.delay_s = context.server_args.get("delay_s", 0.0)


class Join(Toy):
    """Appends its name to each input; several inputs are joined by `+`."""

    def run_batch(self, calls: Sequence[Call]) -> Sequence[str]:
        time.sleep(self.delay_s)
        return [joined(call.inputs.values(), self.name) for call in calls]


class AsyncJoin(Toy):
    """The same on the event loop."""

    async def run_batch(self, calls: Sequence[Call]) -> Sequence[str]:
        await asyncio.sleep(self.delay_s)
        return [joined(call.inputs.values(), self.name) for call in calls]


class Forward(Toy):
    """The same by `process`, sent on."""

    async def process(self, job: Job) -> None:
        await job.send(await job.compute(self.work, await job.payloads()))

    def work(self, inputs: dict[str, Any]) -> str:
        time.sleep(self.delay_s)
        return joined(inputs.values(), self.name)


class Tell(Forward):
    """The same to the client."""

    async def process(self, job: Job) -> None:
        await job.emit(await job.compute(self.work, await job.payloads()))


class Echo(Toy):
    """Gives back what it got, on the event loop."""

    async def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        return [call.input for call in calls]


class Sizes(Toy):
    """Gives each call the size of its batch."""

    def run_batch(self, calls: Sequence[Call]) -> Sequence[int]:
        time.sleep(self.delay_s)
        return [len(calls)] * len(calls)


class StepSizes(Toy):
    """The same through `job.batch`."""

    async def process(self, job: Job) -> None:
        await job.emit(await job.batch(sizes, await job.payload()))


class Count(Toy):
    """Emits `count` chunks: numbers, or arrays of `samples` float32 of that value."""

    async def process(self, job: Job) -> None:
        payload = await job.payload()
        for index in range(payload["count"]):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await job.emit(chunk(index, payload.get("samples", 0)))
            self.note(index + 1)

    def note(self, made: int) -> None: ...


class CountTo(Count):
    """Notes in a file how many it has made."""

    def note(self, made: int) -> None:
        Path(self.args["log"]).write_text(str(made))


class Relay(Toy):
    """Passes every chunk on."""

    async def process(self, job: Job) -> None:
        async for item in job.stream():
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await job.emit(item)


class First(Toy):
    """Reads one chunk of its stream and has enough."""

    async def process(self, job: Job) -> None:
        await job.emit(await anext(job.stream()))


class StreamThenPayload(Toy):
    """Emits 20 chunks, then sends a payload to where the payload edge leads."""

    async def process(self, job: Job) -> None:
        await job.payload()
        for index in range(20):
            await job.emit(index)
        await job.send("told")


class ChunksBeforePayload(Toy):
    """Emits the sum of its stream, then the payload that comes when the stream has ended."""

    async def process(self, job: Job) -> None:
        total = 0
        async for item in job.stream():
            total += item
        await job.emit(total)
        await job.emit(await job.payload())


class Fail(Toy):
    """Raises what the payload names."""

    async def process(self, job: Job) -> None:
        await job.payload()
        if self.args["how"] == "typed":
            raise InvalidRequestError("This voice is unknown.", field="voice")
        if self.args["how"] == "untyped":
            raise KeyError("lost")
        if self.args["how"] == "compute":
            await job.compute(int, "no number")
        if self.args["how"] == "value":
            await job.emit(object())
        if self.args["how"] == "twice":
            await job.send(1)
            await job.send(2)
        if self.args["how"] == "returned":
            return "a result"  # type: ignore[return-value]
        if self.args["how"] == "emitted":
            await job.emit(1)
        if self.args["how"] == "exit":
            os._exit(3)
        return None


class Careful(Toy):
    """Uses something in its compute thread and frees it when the request ends."""

    record = "nothing"

    async def process(self, job: Job) -> None:
        if (await job.payload())["text"] == "report":
            await job.emit(self.record)
            return
        self.using = False
        try:
            await job.compute(self.use)
        finally:
            self.record = "freed while in use" if self.using else "freed after use"

    def use(self) -> None:
        self.using = True
        time.sleep(0.5)
        self.using = False


class FailSome(Toy):
    """Refuses calls whose text is `bad`, alone of their batch."""

    def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        refusal = InvalidRequestError("This text is bad.", field="input")
        return [refusal if call.input["text"] == "bad" else len(calls) for call in calls]


class BadBatch(Toy):
    """Returns what no batch function may, as `returns` says."""

    def run_batch(self, calls: Sequence[Call]) -> Any:
        return bad_results(self.args["returns"], calls)


class AsyncBadBatch(BadBatch):
    """The same on the event loop."""

    async def run_batch(self, calls: Sequence[Call]) -> Any:
        return bad_results(self.args["returns"], calls)


class BadStep(Toy):
    """The same through `job.batch`."""

    async def process(self, job: Job) -> None:
        await job.emit(await job.batch(self.step, await job.payload()))

    def step(self, items: Sequence[Any]) -> Any:
        return bad_results(self.args["returns"], items)


class Emit(Toy):
    """Emits what the payload names."""

    async def process(self, job: Job) -> None:
        for item in outputs((await job.payload())["text"]):
            await job.emit(item)


class Return(Toy):
    """The same by `run_batch`, one at a time."""

    def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        return outputs(calls[0].input["text"])


class SendNowhere(Toy):
    async def process(self, job: Job) -> None:
        await job.send(await job.payload())


class OddError(Toy):
    """Raises errors that cannot be sent as they are."""

    async def process(self, job: Job) -> None:
        how = (await job.payload())["text"]
        if how == "surrogate":
            raise ValueError("half a letter: \ud800")
        if how == "speechless":
            raise SpeechlessError
        if how == "untold":
            raise InvalidRequestError(object(), field=object())  # type: ignore[arg-type]
        if how == "uncarried":
            raise UncarriedError("It holds something.")
        await job.emit(how)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class UncarriedError(InvalidRequestError):
    def _extra(self) -> dict[str, Any]:
        return {"what": object()}


class Die(Toy):
    """Ends its process while it is built."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        print("about to go", flush=True)
        os._exit(7)


class Hang(Toy):
    """Is never built."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        context.report("hanging", 0.5)
        time.sleep(600)


class Refuse(Toy):
    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        raise ValueError("no such weights")


class Exit(Toy):
    """Calls `sys.exit` while it is built, or where the payload says."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context)
        if self.args.get("at_once"):
            sys.exit("no licence")

    async def process(self, job: Job) -> None:
        how = (await job.payload())["text"]
        if how == "process":
            sys.exit(3)
        if how == "compute":
            await job.compute(sys.exit, 3)
        if how == "batch":
            await job.batch(sys.exit, 3)
        await job.emit(how)


class ExitBatch(Toy):
    def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        return sys.exit(3) if calls[0].input["text"] == "batch" else [0] * len(calls)


class AsyncExitBatch(ExitBatch):
    async def run_batch(self, calls: Sequence[Call]) -> Sequence[Any]:
        return super().run_batch(calls)


class Closing(Toy):
    """Leaves a file behind when it is closed."""

    async def process(self, job: Job) -> None:
        await job.emit(await job.payload())

    def close(self) -> None:
        Path(self.args["closed"]).touch()


class Freeze(Toy):
    """Stops its whole process, as a debugger would."""

    async def process(self, job: Job) -> None:
        payload = await job.payload()
        if payload["text"] == "freeze":
            os.kill(os.getpid(), 19)
        await job.emit("alive")


class Parent(Toy):
    """Starts a process of its own and tells its pid."""

    async def process(self, job: Job) -> None:
        child = await asyncio.create_subprocess_exec("sleep", "600")
        await job.emit(child.pid)


class Arrays(Toy):
    """Emits an array twice as large as the one that it got, of twice its values."""

    async def process(self, job: Job) -> None:
        payload = await job.payload()
        if isinstance(payload, dict):
            await job.send(self.double(payload["array"]))
        else:
            await job.emit(self.double(payload))

    def double(self, array: Any) -> Any:
        return np.concatenate([array, array]) * 2


class Stamp(Toy):
    """Sends 1 KB with the time (ns, monotonic) at which it was sent."""

    async def process(self, job: Job) -> None:
        await job.payload()
        await job.send({"sent": time.perf_counter_ns(), "data": bytes(1024)})


class Hop(Toy):
    """Emits how long the payload of `Stamp` was on its way, in ns."""

    async def process(self, job: Job) -> None:
        payload = await job.payload()
        await job.emit(time.perf_counter_ns() - payload["sent"])


def bad_results(name: str, items: Sequence[Any]) -> Any:
    return {
        "none": None,
        "int": 7,
        "generator": (item for item in items),
        "string": "x" * len(items),
        "mapping": dict.fromkeys(range(len(items))),
        "coroutine": asyncio.sleep(0) if name == "coroutine" else None,
        "too few": [],
        "too many": [*items, None],
    }[name]


def outputs(name: str) -> Sequence[Any]:
    if name == "torch":
        torch = importlib.import_module("torch")
        return [torch.full((3,), 0.5, requires_grad=True)]
    if name == "torch 2-D":
        return [importlib.import_module("torch").zeros(1, 3)]
    if name == "torch float64":
        return [importlib.import_module("torch").zeros(3).double()]
    return {
        "loud": [np.full(3, 1.5, np.float32)],
        "empty": [np.zeros(0, np.float32)],
        "string": ["beep"],
        "list": [[0.0, 0.5]],
        "None": [None],
        "bytes": [b"beep"],
        "int16": [np.zeros(3, np.int16)],
        "float64": [np.zeros(3)],
        "2-D": [np.zeros((1, 3), np.float32)],
        "nan": [np.array([0, np.nan], np.float32)],
        "infinite": [np.array([np.inf, 0], np.float32)],
    }[name]


def sizes(items: Sequence[Any]) -> Sequence[int]:
    return [len(items)] * len(items)


def joined(values: Any, name: str) -> str:
    return "+".join(v["text"] if isinstance(v, dict) else str(v) for v in values) + f">{name}"


def chunk(index: int, samples: int) -> Any:
    return np.full(samples, index, np.float32) if samples else index
