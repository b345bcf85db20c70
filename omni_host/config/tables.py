"""The tables of the configuration: every setting with its type, default and meaning.

An option of a stage or an edge that is None leaves what the model's graph says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from omni_host.config.plugin_lists import names

__all__ = [
    "BatchingTable",
    "Configuration",
    "EdgeTable",
    "HealthTable",
    "LauncherTable",
    "LimitsTable",
    "LogTable",
    "ModelTable",
    "PlatformTable",
    "PluginsTable",
    "ServerTable",
    "StageTable",
]

Names = Annotated[tuple[str, ...], BeforeValidator(names)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Period = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """Unknown keys are refused and nothing is coerced: `"8000"` is no port."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ServerTable(Table):
    """`[server]`: where the API listens, what it takes, and how it stops."""

    host: str = Field(default="127.0.0.1", description="address the API listens at")
    port: int = Field(default=8000, ge=0, le=65535, description="0 takes a free one")
    drain_seconds: Seconds = Field(
        default=30.0,
        description="how long running requests may go on once the server is told to stop",
    )
    stall_seconds: Period = Field(
        default=120.0, description="a client that reads nothing for so long is given up"
    )
    max_body_bytes: Count = Field(default=32 * 2**20, description="largest body of a request")
    max_whole_bytes: Count = Field(
        default=256 * 2**20, description="largest answer that is not streamed"
    )


class LimitsTable(Table):
    """`[limits]`: requests that run, requests that wait, how long one may take, and how
    many chunks its client may leave unread before its stages wait.
    """

    max_running: Count = Field(default=64, description="requests that run at once")
    max_queued: int = Field(
        default=256, ge=0, description="requests that wait; more are refused with a 503"
    )
    deadline_seconds: Period | None = Field(
        default=None, description="how long one request may take"
    )
    result_credits: Count = Field(
        default=8, description="chunks that a client may leave unread before its stages wait"
    )


class PluginsTable(Table):
    """`[plugins]`: names of plugins; `routes` are those that may add routes to the API."""

    allow: Names = Field(default=(), description="plugins to load, all if empty")
    block: Names = Field(default=(), description="plugins not to load")
    routes: Names = Field(default=(), description="plugins that may add routes to the API")


class ModelTable(BaseModel):
    """`[model]`: which model, who owns it, and the options that its plugin takes.

    `reference` is used when the command names no model; `name` is what the API calls it.
    Every other key is an option for `build_stages`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    reference: str = Field(
        default="default",
        description="the model where a command names none: a folder, an alias or a hub name",
    )
    name: str | None = Field(default=None, description="what the API calls it")
    owner: str | None = Field(
        default=None, description="the plugin that serves it, where several would"
    )
    revision: str | None = Field(default=None, description="revision of a hub's model")

    @property
    def options(self) -> Mapping[str, Any]:
        """What is left for `build_stages`."""
        return dict(self.model_extra or {})


class PlatformTable(Table):
    """`[platform]`: the hardware, `auto` for the best one that is found."""

    name: str = Field(default="auto", description="the hardware, auto for the best that is found")


class LauncherTable(Table):
    """`[launcher]`: what starts stage processes."""

    name: str = Field(default="local", description="what starts stage processes")


class BatchingTable(Table):
    """`[stages.NAME.batching]`: how calls of the stage are gathered."""

    max_size: Count | None = Field(default=None, description="calls gathered at most")
    max_wait_seconds: Seconds | None = Field(
        default=None, description="how long the first call waits for others"
    )


class StageTable(Table):
    """`[stages.NAME]`: overrides of one stage of the graph."""

    process: str | None = Field(
        default=None, min_length=1, description="stages that name one process share it"
    )
    device: str | None = Field(default=None, description="auto, cpu, cuda:0, ...")
    engine: str | None = Field(default=None, description="engine of a stage that has one")
    python: str | None = Field(default=None, description="interpreter of another environment")
    env: dict[str, str] = Field(default={}, description="environment variables of its process")
    server_args: dict[str, JsonValue] = Field(
        default={}, description="arguments of the stage or its engine"
    )
    batching: BatchingTable = Field(default=BatchingTable(), description="how calls are gathered")
    max_concurrent: Count | None = Field(default=None, description="requests inside at once")


class EdgeTable(Table):
    """`[edges."a->b"]`: overrides of the edges from stage a to stage b."""

    transport: str | None = Field(
        default=None, description="what carries tensors, auto to leave it to the host"
    )
    credits: Count | None = Field(
        default=None, description="chunks that may be on the way unconsumed"
    )


class TransportTable(Table):
    """`[transports.NAME]`: settings of a transport's own, checked by the transport.

    For `shm`: `limit_bytes` (2 GiB), the shared memory that one process may own; `idle_s` (30),
    after which unused memory is given back; `segments` (`auto`, `memfd` or `named`).
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def settings(self) -> Mapping[str, Any]:
        """As they were given."""
        return dict(self.model_extra or {})


class HealthTable(Table):
    """`[health]`: watching stage processes (see `omni_host.runtime.Health`).

    `start_seconds` is what loading may take; a process that gives no sign of life for
    `limit_seconds` is killed; after `failures` deaths within `failures_seconds` it stays down.
    """

    start_seconds: Period = Field(default=600.0, description="what loading may take")
    ping_seconds: Period = Field(default=0.5, description="time between signs of life")
    limit_seconds: Period = Field(
        default=10.0, description="a process without a sign of life for so long is killed"
    )
    failures: Count = Field(default=5, description="deaths after which a process stays down")
    failures_seconds: Period = Field(default=60.0, description="the time in which they count")
    backoff_seconds: Seconds = Field(
        default=0.1, description="wait before the first restart, doubled each time"
    )
    backoff_most_seconds: Seconds = Field(default=5.0, description="the longest such wait")
    stop_seconds: Seconds = Field(
        default=5.0, description="what stopping may take before the process is killed"
    )


class LogTable(Table):
    """`[log]`: `-v` and `-vv` go before it."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="-v and -vv go before it"
    )


class Configuration(Table):
    """The whole file. `placement` puts every stage in a process of its own (`separate`),
    all in one (`fused`), or where the graph says (`graph`).
    """

    placement: Literal["graph", "fused", "separate"] = Field(
        default="graph",
        description="processes: graph as the model says, fused one for all, separate one each",
    )
    server: ServerTable = ServerTable()
    limits: LimitsTable = LimitsTable()
    plugins: PluginsTable = PluginsTable()
    model: ModelTable = ModelTable()
    platform: PlatformTable = PlatformTable()
    launcher: LauncherTable = LauncherTable()
    health: HealthTable = HealthTable()
    log: LogTable = LogTable()
    stages: dict[str, StageTable] = {}
    edges: dict[str, EdgeTable] = {}
    transports: dict[str, TransportTable] = Field(
        default={},
        description="settings of a transport's own, by its name; for shm: limit_bytes, idle_s "
        "(seconds) and segments (auto, memfd or named)",
    )
