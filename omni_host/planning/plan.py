"""Make a deployment: ask the plugins, let the operator decide, check, place and wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from omni_host.config.settings import Settings
from omni_host.deployment import Deployment, StagePlan
from omni_host.errors import ConfigError, PluginError
from omni_host.graph import StageSpec
from omni_host.graph_checks import validate
from omni_host.graph_types import check_types
from omni_host.offers import EngineSpec, ModelRef, PlatformProbe, TransportSpec
from omni_host.planning.overrides import override
from omni_host.planning.placement import device_of, processes_of
from omni_host.planning.wiring import HOST_TRANSPORTS, wire
from omni_host.plugins import Plugins
from omni_host.plugins.faults import did_you_mean

__all__ = ["plan"]

Offer = TypeVar("Offer")


def plan(
    reference: str, settings: Settings, plugins: Plugins, *, weights: bool = True
) -> Deployment:
    """Decide everything about serving `reference`; the same inputs give the same deployment.

    Reads the model's `config.json` and probes the hardware, and starts nothing. The weights
    of a hub's model are fetched with `weights` only.
    Raises ModelError, PluginError, PlatformError or ConfigError.
    """
    values = settings.values
    resolved = plugins.resolve_model(
        reference, values.model.revision, owner=values.model.owner, weights=weights
    )
    platform = plugins.platform(values.platform.name)
    transports = plugins.transports()
    built = plugins.build_stages(resolved.owner, resolved.model, values.model.options, platform)
    check_types(built)
    graph = override(built, settings, transports)
    validate(graph, transports)
    stages = {
        stage.name: _stage_plan(stage, resolved.owner, platform, settings, plugins)
        for stage in graph.stages
    }
    edges = tuple(wire(edge, stages, platform, plugins) for edge in graph.edges)
    used = {edge.transport for edge in edges} | HOST_TRANSPORTS
    launchers = plugins.launchers()
    name = values.model.name or _served_name(reference, resolved.model)
    return Deployment(
        model=resolved.model,
        name=name,
        owner=resolved.owner,
        graph=replace(graph, stages=tuple(stage.spec for stage in stages.values())),
        platform=platform,
        stages=tuple(stages.values()),
        edges=edges,
        processes=processes_of([stage.spec for stage in stages.values()], settings),
        transports=tuple(spec for name, spec in sorted(transports.items()) if name in used),
        launcher=_offer(launchers, values.launcher.name, "launcher", "launcher.name"),
        lock=plugins.lock(),
        aliases=tuple(alias for alias in resolved.aliases if alias != name),
        transport_settings=_transport_settings(settings, transports),
    )


def _transport_settings(
    settings: Settings, transports: Mapping[str, TransportSpec]
) -> Mapping[str, Mapping[str, Any]]:
    tables = settings.values.transports
    for name in tables:
        if name not in transports:
            raise ConfigError(
                f"There is no transport '{name}' for transports.{name}."
                f"{did_you_mean(name, transports)}",
                hint=f"Installed: {', '.join(sorted(transports))}.",
                field=f"transports.{name}",
            )
    return {name: table.settings for name, table in tables.items()}


def _stage_plan(
    stage: StageSpec, owner: str, platform: PlatformProbe, settings: Settings, plugins: Plugins
) -> StagePlan:
    engine = _engine(stage, platform, plugins)
    device = device_of(stage, platform)
    stage = replace(
        stage,
        process=stage.process or stage.name,
        device=device,
        engine=engine.name if engine else None,
    )
    operator = settings.sourced("stages", stage.name, "server_args")
    arguments = plugins.server_args(owner, stage, platform, operator)
    spec = replace(stage, server_args={key: given.value for key, given in arguments.items()})
    return StagePlan(
        spec=spec,
        process=stage.process or stage.name,
        device=device,
        engine=engine,
        server_args=arguments,
    )


def _engine(stage: StageSpec, platform: PlatformProbe, plugins: Plugins) -> EngineSpec | None:
    if stage.engine is None:
        return None
    name = platform.default_engine if stage.engine == "auto" else stage.engine
    return _offer(plugins.engines(), name, "engine", f"stages.{stage.name}.engine")


def _offer(offers: Mapping[str, Offer], name: str, what: str, key: str) -> Offer:
    if name in offers:
        return offers[name]
    installed = ", ".join(sorted(offers)) or "none"
    raise PluginError(
        f"No installed plugin offers the {what} '{name}'.{did_you_mean(name, offers)}",
        hint=f"Installed: {installed}. Choose one with --set {key}=NAME.",
        field=key,
    )


def _served_name(reference: str, model: ModelRef) -> str:
    """An alias or a hub name as typed; a folder by its last part."""
    path = Path(reference)
    if model.path is not None and path.is_dir() and path.samefile(model.path):
        return path.resolve().name
    return reference
