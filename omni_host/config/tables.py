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

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    drain_seconds: Seconds = 30.0
    stall_seconds: Period = 120.0
    max_body_bytes: Count = 32 * 2**20
    max_whole_bytes: Count = 256 * 2**20


class LimitsTable(Table):
    """`[limits]`: requests that run, requests that wait, how long one may take, and how
    many chunks its client may leave unread before its stages wait.
    """

    max_running: Count = 64
    max_queued: int = Field(default=256, ge=0)
    deadline_seconds: Period | None = None
    result_credits: Count = 8


class PluginsTable(Table):
    """`[plugins]`: names of plugins; `routes` are those that may add routes to the API."""

    allow: Names = ()
    block: Names = ()
    routes: Names = ()


class ModelTable(BaseModel):
    """`[model]`: which model, who owns it, and the options that its plugin takes.

    `reference` is used when the command names no model; `name` is what the API calls it.
    Every other key is an option for `build_stages`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    reference: str = "default"
    name: str | None = None
    owner: str | None = None
    revision: str | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        """What is left for `build_stages`."""
        return dict(self.model_extra or {})


class PlatformTable(Table):
    """`[platform]`: the hardware, `auto` for the best one that is found."""

    name: str = "auto"


class LauncherTable(Table):
    """`[launcher]`: what starts stage processes."""

    name: str = "local"


class BatchingTable(Table):
    """`[stages.NAME.batching]`: how calls of the stage are gathered."""

    max_size: Count | None = None
    max_wait_seconds: Seconds | None = None


class StageTable(Table):
    """`[stages.NAME]`: overrides of one stage of the graph."""

    process: str | None = Field(default=None, min_length=1)
    device: str | None = None
    engine: str | None = None
    python: str | None = None
    env: dict[str, str] = {}
    server_args: dict[str, JsonValue] = {}
    batching: BatchingTable = BatchingTable()
    max_concurrent: Count | None = None


class EdgeTable(Table):
    """`[edges."a->b"]`: overrides of the edges from stage a to stage b."""

    transport: str | None = None
    credits: Count | None = None


class HealthTable(Table):
    """`[health]`: watching stage processes (see `omni_host.runtime.Health`).

    `start_seconds` is what loading may take; a process that gives no sign of life for
    `limit_seconds` is killed; after `failures` deaths within `failures_seconds` it stays down.
    """

    start_seconds: Period = 600.0
    ping_seconds: Period = 0.5
    limit_seconds: Period = 10.0
    failures: Count = 5
    failures_seconds: Period = 60.0
    backoff_seconds: Seconds = 0.1
    backoff_most_seconds: Seconds = 5.0
    stop_seconds: Seconds = 5.0


class LogTable(Table):
    """`[log]`: `-v` and `-vv` go before it."""

    level: Literal["debug", "info", "warning", "error"] = "warning"


class Configuration(Table):
    """The whole file. `placement` puts every stage in a process of its own (`separate`),
    all in one (`fused`), or where the graph says (`graph`).
    """

    placement: Literal["graph", "fused", "separate"] = "graph"
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
