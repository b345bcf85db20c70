"""A model in processes of its own, for tests that have no event loop."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from anyio.from_thread import BlockingPortal, start_blocking_portal

from omni_host.cli.pipelines import pipeline_of
from omni_host.config.settings import Settings, validate
from omni_host.config.sources import Entry, assignment, merge
from omni_host.deployment import Deployment
from omni_host.errors import UsageError
from omni_host.graph import Task
from omni_host.planning import plan
from omni_host.plugins import Plugins, discover
from omni_host.runtime import Generation, OutputChunk, Pipeline, Request, Snapshot
from omni_host.serve.speech_request import SpeechForm

__all__ = ["Audio", "ServedModel", "SpeechStream", "differing", "joined", "settings_of"]

T = TypeVar("T")

Audio = npt.NDArray[np.float32]
"""Samples [samples], mono, -1..1."""

_POLL_S = 0.01

_numbers = itertools.count(1)


def settings_of(assignments: Sequence[str], options: Mapping[str, Any]) -> Settings:
    """Settings as `--set` would give them, and the `[model]` table's `options`; no files."""
    entries = [assignment(text) for text in assignments]
    entries += [
        Entry(key=("model", name), value=value, source="options") for name, value in options.items()
    ]
    return validate(merge(entries))


class ServedModel:
    """Plans a model, starts it, speaks with it and stops it again, without `async`.

        with ServedModel("demo", "placement=fused") as model:
            samples = model.speak("Good morning.", speed=0.9)

    The processes are those that `omni serve` starts, without the HTTP server before them.
    Every wait ends after `patience_s` seconds in a TimeoutError that says what was waited
    for; loading may take `health.start_seconds`. It is not meant for several threads.

    Attributes:
        plugins: the installed plugins, loaded.
        settings: those given, on top of the defaults; neither a file nor the environment
            is read.
        deployment: the plan.
        task: the model's `speech` task.
        sample_rate: of its audio, in Hz.
    """

    def __init__(
        self,
        reference: str,
        *settings: str,
        options: Mapping[str, Any] | None = None,
        patience_s: float = 60.0,
    ) -> None:
        """Plan `reference` (an alias, a folder, a hub name); nothing is started yet.

        `settings` are written as for `--set` (`limits.max_running=8`), `options` go to
        `build_stages`. Raises what planning raises, UsageError if the model does not speak,
        GraphError if its request fields clash with those of the API.
        """
        self.patience_s = patience_s
        self.settings = settings_of(settings, options or {})
        self.plugins = Plugins.load(discover())
        self.deployment: Deployment = plan(reference, self.settings, self.plugins)
        self.task, self.sample_rate = _speech(self.deployment)
        self._form = SpeechForm(self.deployment.name, self.task)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._pipeline: Pipeline | None = None

    def __enter__(self) -> ServedModel:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start its processes and wait until every stage is ready. Raises StageStartError."""
        pipeline = pipeline_of(self.deployment, self.plugins, self.settings)
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.callback(portal.call, pipeline.stop, 0.0)
            portal.call(pipeline.start)
            self._portal, self._pipeline = portal, pipeline
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Cancel what runs and stop every process. Does nothing if none was started."""
        self._portal = self._pipeline = None
        self._stack.close()

    # Requests.

    def speak(self, text: str, **fields: Any) -> Audio:
        """The whole audio of one request: float32 [samples] at `sample_rate`.

        `fields` are named as in the API (`voice`, `speed`, the family's own) and checked as
        there. Raises InvalidRequestError, or the typed error by which the request failed.
        """
        with self.stream(text, **fields) as stream:
            return joined(list(stream))

    def speak_at_once(self, requests: Sequence[Mapping[str, Any]]) -> list[Audio]:
        """As `speak` for several requests that run at the same time, in their order.

        A request is a mapping with its `text` and its fields.
        """
        portal = self._running()[0]
        payloads = [self.payload(**request) for request in requests]
        futures = [portal.start_task_soon(self._collect, payload) for payload in payloads]
        end = time.monotonic() + self.patience_s
        return [joined(self._within(future.result, "all requests", end=end)) for future in futures]

    def stream(self, text: str, **fields: Any) -> SpeechStream:
        """The chunks of one request as they are made; see `SpeechStream` and `speak`."""
        return self.submit(self.payload(text, **fields))

    def payload(self, text: str, **fields: Any) -> Mapping[str, Any]:
        """What the stages are given for such a request. Raises InvalidRequestError."""
        asked = {"model": self.deployment.name, "input": text, **fields}
        return self._form.read(asked).payload

    def submit(self, payload: Mapping[str, Any]) -> SpeechStream:
        """Hand a payload to the stages as it is, whether it makes sense or not."""
        portal, pipeline = self._running()
        return SpeechStream(self, portal.call(pipeline.submit, self._request(payload)))

    # Looking at it.

    def snapshot(self) -> Snapshot:
        """How things stand at this moment."""
        portal, pipeline = self._running()
        return portal.call(pipeline.snapshot)

    def processes(self) -> dict[str, int]:
        """The ids of its processes by name, without those that are being started again."""
        return {s.process: s.pid for s in self.snapshot().stages if s.pid is not None}

    def holding(self) -> dict[str, int]:
        """How many requests each stage holds, without those that hold none."""
        return {s.stage: s.inside for s in self.snapshot().stages if s.inside}

    def wait_until_idle(self) -> None:
        """Wait until no stage holds a request any more."""
        end = time.monotonic() + self.patience_s
        while (held := self.holding()) or self.snapshot().running:
            if time.monotonic() > end:
                raise TimeoutError(f"still held after {self.patience_s:g} s: {held}")
            time.sleep(_POLL_S)

    def wait_until_ready(self) -> None:
        """Wait until every process serves, after one has died."""
        end = time.monotonic() + self.patience_s
        while (state := self.snapshot().state) != "ready":
            if time.monotonic() > end or state == "failed":
                raise TimeoutError(f"it is not ready after {self.patience_s:g} s: {state}")
            time.sleep(_POLL_S)

    # Between the test's thread and the loop's.

    def wait_for(self, coroutine: Callable[..., Awaitable[T]], what: str, *arguments: Any) -> T:
        """Run a coroutine function on the model's loop and wait for its result."""
        future = self._running()[0].start_task_soon(coroutine, *arguments)
        try:
            return self._within(future.result, what)
        finally:
            future.cancel()

    def on_loop(self, function: Callable[[], T]) -> T:
        """Run a function on the model's loop."""
        return self._running()[0].call(function)

    def _within(self, result: Callable[[float], T], what: str, *, end: float | None = None) -> T:
        wait_s = self.patience_s if end is None else max(0.0, end - time.monotonic())
        try:
            return result(wait_s)
        except TimeoutError:
            raise TimeoutError(
                f"{what} did not come within {self.patience_s:g} s; stages hold {self.holding()}"
            ) from None

    async def _collect(self, payload: Mapping[str, Any]) -> list[Any]:
        _, pipeline = self._running()
        async with pipeline.submit(self._request(payload)) as generation:
            return [copied(chunk) async for chunk in generation]

    def _request(self, payload: Mapping[str, Any]) -> Request:
        heard = {"audio"} if any(isinstance(v, bytes) for v in payload.values()) else set[str]()
        return Request(
            id=f"test-{next(_numbers)}",
            task=self.task.name,
            payload=payload,
            inputs=frozenset({"text", *heard}),
            outputs=frozenset({"audio"}),
        )

    def _running(self) -> tuple[BlockingPortal, Pipeline]:
        if self._portal is None or self._pipeline is None:
            raise RuntimeError("the model does not run: use it in a `with` block")
        return self._portal, self._pipeline


class SpeechStream:
    """The chunks of one request: iterate over it, and leave its `with` block to cancel.

    A chunk is what the terminal stage emitted: float32 [samples], if it keeps the rules.
    Iterating raises the typed error by which the request failed.
    """

    def __init__(self, model: ServedModel, generation: Generation) -> None:
        self._model = model
        self._generation = generation

    def __enter__(self) -> SpeechStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        chunk = self._model.wait_for(self._next, "a chunk")
        if chunk is None:
            raise StopIteration
        return copied(chunk)

    def cancel(self) -> None:
        """Nobody wants the rest. Does nothing once the request has ended."""
        self._model.on_loop(self._generation.cancel)

    async def _next(self) -> OutputChunk | None:
        return await anext(self._generation, None)


def copied(chunk: OutputChunk) -> Any:
    """The data of a chunk; an array no longer in the memory that it came through."""
    data = cast("object", chunk.data)
    return np.array(cast("npt.NDArray[Any]", data)) if isinstance(data, np.ndarray) else data


def joined(chunks: Sequence[Any]) -> Audio:
    """The chunks as one array."""
    return np.concatenate([np.zeros(0, np.float32), *chunks])


def differing(first: Audio, second: Audio, tolerance: float = 0.0) -> str:
    """How audio differs that should be the same, to the last bit or `tolerance`; else nothing."""
    if first.shape != second.shape:
        return f"{first.size} samples against {second.size}"
    if np.array_equal(first, second, equal_nan=True):
        return ""
    most = float(np.max(np.abs(first - second)))
    return "" if most <= tolerance else f"samples that are up to {most:.3g} apart"


def _speech(deployment: Deployment) -> tuple[Task, int]:
    for task in deployment.graph.tasks:
        rates = [out.sample_rate for out in task.outputs if out.modality == "audio"]
        if task.name == "speech" and rates and rates[0]:
            return task, rates[0]
    raise UsageError(f"The model {deployment.name} has no task `speech` that yields audio.")
