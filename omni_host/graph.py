"""A model as a graph of stages: the data that `build_stages` returns.

Everything here is frozen, holds plain data only and imports neither torch nor a
plugin, so a graph can be explained, compared and sent to another interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Batching", "Edge", "Output", "RequestField", "StageGraph", "StageSpec", "Task"]

EdgeKind = Literal["payload", "stream"]
FieldType = Literal["string", "integer", "number", "boolean", "audio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How calls of a stage are gathered: up to `max_size`, waiting at most `max_wait_s`.

    The wait starts when the first call arrives; a full batch leaves at once.
    """

    max_size: int = 1
    max_wait_s: float = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage.

    Attributes:
        name: unique in the graph; letters, digits, `_` and `-`.
        target: `package.module:attribute`, resolved in the stage's process alone;
            called with a `StageContext` it gives a stage (see `omni_host.stage`).
        engine: name of the engine that runs its decoder (`torch`, `sglang`, ...),
            or None for a stage that needs none.
        device: `auto` (what the platform offers), `cpu`, `cuda:0`, ...
        process: stages that name the same process share it; None gives the stage
            a process of its own, named after it.
        server_args: arguments of the stage or its engine, plain data.
        env: environment variables of its process, set before Python starts.
        python: interpreter of another virtual environment, or None for the host's.
        batching: how `run_batch` calls are gathered.
        max_concurrent: how many requests may be inside at once; more of them wait.
    """

    name: str
    target: str
    engine: str | None = None
    device: str = "auto"
    process: str | None = None
    server_args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str | None = None
    batching: Batching = field(default_factory=Batching)
    max_concurrent: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Data that flows from `source` to `target`.

    A `payload` edge carries exactly one value a request; a `stream` edge carries
    any number of chunks, at most `credits` of them unconsumed.

    `when` routes by modality: the edge is used for requests that have at least one
    of the named tags, and for all when empty. Tags are `in:<modality>` and
    `out:<modality>`, such as `in:audio` or `out:text`.
    """

    source: str
    target: str
    kind: EdgeKind = "payload"
    transport: str = "auto"
    when: frozenset[str] = frozenset()
    credits: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a terminal stage yields to the client.

    Chunks of modality `audio` are float32 arrays [samples], mono, -1..1, at
    `sample_rate` Hz; chunks of modality `text` are strings. Any other modality
    is plain data of the family's own.
    """

    stage: str
    modality: str
    sample_rate: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """A request field of the family's own, beside those of the OpenAI API."""

    name: str
    type: FieldType
    description: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something the model can be asked to do.

    Attributes:
        name: `speech` is served by the host's API and by `omni speak`; a task of any
            other name is reached through `omni_host.runtime` alone.
        entry: the stages that receive the request's payload.
        outputs: its terminals; a request's `out:` tags select among them.
        voices: the built-in voices, the default first.
        honours: which optional fields of the OpenAI API reach the stages. Of `speech`:
            `instructions`, which is refused with a 400 where it is not named, and `speed`,
            which is the host's to apply to the audio where it is not named.
        fields: request fields of the family's own.
        max_characters: the longest input text.
    """

    name: str
    entry: tuple[str, ...]
    outputs: tuple[Output, ...]
    voices: tuple[str, ...] = ()
    honours: frozenset[str] = frozenset()
    fields: tuple[RequestField, ...] = ()
    max_characters: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGraph:
    """The stages of a model, the edges between them and the tasks it serves.

    `omni_host.graph_checks.validate` refuses what cannot run.
    """

    stages: tuple[StageSpec, ...]
    edges: tuple[Edge, ...] = ()
    tasks: tuple[Task, ...] = ()
