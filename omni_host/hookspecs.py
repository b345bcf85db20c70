"""The hooks: everything that a plugin can tell or do, in one page.

A plugin is a module with functions marked by `omni_host.api.hookimpl`. Unless a
hook says otherwise it runs in the host process, which has no torch: return data
and dotted names, and leave imports of heavy packages to the stages.

What happens when a hook raises is part of its contract. *Isolated*: the fault is
reported, the plugin's answer is left out, everybody else goes on. *Fatal*: start-up
stops with the plugin's name, the cause and the fix. The plugin that was asked for
is never isolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from omni_host.graph import Edge, StageGraph, StageSpec
from omni_host.offers import (
    Claim,
    EngineSpec,
    LauncherSpec,
    ModelRef,
    PlatformProbe,
    PlatformRequest,
    ReadinessCheck,
    RouteContext,
    TransportSpec,
)
from omni_host.stage import StageContext

hookspec = pluggy.HookspecMarker("omni_host")
hookimpl = pluggy.HookimplMarker("omni_host")


@hookspec
def claim_model(model: ModelRef) -> Claim | None:
    """Say whether this plugin serves `model`, and where the model is.

    When: the reference is an alias that the plugin claims in `omni_host.models`, or no
    static claim matches the `config.json`. Then every plugin is asked.
    Returns: a `Claim`, or None. Two claims by two plugins are an error that names both.
    On error: isolated.
    """


@hookspec(firstresult=True)
def build_stages(
    model: ModelRef, options: Mapping[str, Any], platform: PlatformProbe
) -> StageGraph | None:
    """Describe the model as a graph of stages.

    When: once, at start-up, and for `omni explain`; of the owner only. Others may wrap it
    (`hookimpl(wrapper=True)`); wrappers nest in order of their plugins' names.
    It must be pure: the same arguments give the same graph, and nothing is loaded.
    `options` is the `[model]` table of the configuration.
    Returns: a `StageGraph`.
    On error: fatal.
    """


@hookspec
def customize_server_args(
    stage: StageSpec, server_args: Mapping[str, Any], platform: PlatformProbe
) -> Mapping[str, Any] | None:
    """Change the arguments of one stage.

    When: for every stage before it is spawned. `server_args` are what the ranks below gave.
    Ranks: owner < platform < other plugins < operator; a higher one overrides, and two
    plugins of one rank that set one key differently are an error that names both.
    Returns: a patch (keys to set), or None.
    On error: fatal for the owner and the platform, else isolated.
    """


@hookspec
def stage_transports() -> Iterable[TransportSpec]:
    """Offer transports; each needs a claim of its name in `omni_host.transports`.

    When: host start. On error: isolated.
    """
    return ()


@hookspec(firstresult=True)
def choose_transport(
    edge: Edge, candidates: tuple[TransportSpec, ...], platform: PlatformProbe
) -> str | None:
    """Choose the transport of an edge between two processes whose transport is `auto`.

    When: wiring. Returns: the name of a candidate, or None to leave it to others.
    Without an answer the host takes `shm` on one machine. On error: fatal.
    """


@hookspec
def hardware_platform(request: PlatformRequest) -> PlatformProbe | None:
    """Look for hardware. Absent hardware is None, no error; under 50 ms and without torch.

    When: `omni speak`, `omni serve`, `omni explain`; needs a claim of its name in
    `omni_host.platforms`. On error: fatal if that platform was asked for, else isolated.
    """


@hookspec
def stage_engines() -> Iterable[EngineSpec]:
    """Offer engines; each needs a claim of its name in `omni_host.engines`.

    When: host start. On error: isolated.
    """
    return ()


@hookspec
def stage_launchers() -> Iterable[LauncherSpec]:
    """Offer launchers; each needs a claim of its name in `omni_host.launchers`.

    When: host start. On error: isolated.
    """
    return ()


@hookspec
def stage_starting(stage: StageSpec, context: StageContext) -> None:
    """Prepare the stage's process: environment, libraries to preload.

    When: in the stage process, before its target (and so torch) is imported.
    On error: fatal for the owner and the platform, else isolated.
    """


@hookspec
def stage_ready(stage: StageSpec) -> None:
    """A stage is ready. When: in the host, each time. On error: isolated."""


@hookspec
def stage_stopped(stage: StageSpec, reason: str) -> None:
    """A stage's process has ended. When: in the host, each time. On error: isolated."""


@hookspec
def http_routes(context: RouteContext) -> Iterable[Any]:
    """Add routes (starlette `BaseRoute`s) to the API.

    When: the operator enabled it by the plugin's name (`plugins.routes`), never by default.
    On error: isolated.
    """
    return ()


@hookspec
def readiness_checks() -> Iterable[ReadinessCheck]:
    """Look at whatever this plugin needs. When: the conformance kit asks. On error: isolated."""
    return ()
