"""The plugins of a process: everything the host asks of them, typed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from omni_host.errors import ConfigError, HookError, LockError
from omni_host.graph import Edge, StageGraph, StageSpec
from omni_host.offers import (
    EngineSpec,
    LauncherSpec,
    ModelRef,
    PlatformProbe,
    ReadinessCheck,
    RouteContext,
    Sourced,
    TransportSpec,
)
from omni_host.plugins import hub, import_guard
from omni_host.plugins.calls import HookCalls
from omni_host.plugins.claims import Claims, registrations
from omni_host.plugins.discovery import Discovery, discover
from omni_host.plugins.entry_points import PLUGINS
from omni_host.plugins.faults import Fault, as_sentence, did_you_mean, log_fault
from omni_host.plugins.hardware import PLATFORMS, PlatformChoice
from omni_host.plugins.loading import LoadedPlugin, load_plugin
from omni_host.plugins.lock import Lock, LockedPlugin
from omni_host.plugins.model_sources import is_folder
from omni_host.plugins.offered import Offered, offered
from omni_host.plugins.report import PluginReport, Report, report_of_discovery
from omni_host.plugins.resolution import ModelResolver, ResolvedModel
from omni_host.plugins.results import each, nothing, one, optional, patch
from omni_host.plugins.selection import blocked_names
from omni_host.plugins.server_arguments import ranked_arguments
from omni_host.plugins.unusable import Unusable

__all__ = ["Plugins"]


class Plugins:
    """The loaded plugins. Use `load` in the host and `load_locked` in stage processes."""

    def __init__(
        self,
        discovery: Discovery,
        loaded: Sequence[LoadedPlugin],
        unusable: Unusable,
        *,
        in_host: bool,
    ) -> None:
        self._discovery = discovery
        self._claims = Claims.of(discovery)
        self._unusable = unusable
        self._calls = HookCalls(loaded, in_host=in_host)

    @classmethod
    def load(
        cls, discovery: Discovery, allow: Sequence[str] = (), block: Sequence[str] = ()
    ) -> Plugins:
        """Load what is installed, allowed and not blocked; a broken plugin becomes a fault.

        While plugin code runs, torch, transformers and sglang cannot be imported.
        Raises ConfigError if `allow` or `block` names what is not installed.
        """
        blocked = blocked_names(discovery.group(PLUGINS), allow, block)
        points = {point.name: point for point in registrations(discovery)}
        loaded: list[LoadedPlugin] = []
        broken = {f.plugin: f for f in discovery.faults if f.plugin and f.plugin not in points}
        for name, point in points.items():
            if name in blocked:
                continue
            with import_guard.guarded():
                result = load_plugin(point)
            if isinstance(result, Fault):
                broken[name] = result
            else:
                loaded.append(result)
        for fault in dict.fromkeys([*discovery.faults, *broken.values()]):
            log_fault(fault)
        return cls(discovery, loaded, Unusable(broken=broken, blocked=blocked), in_host=True)

    @classmethod
    def load_locked(cls, lock: Lock) -> Plugins:
        """Load exactly the plugins of `lock`, in a stage process.

        Raises LockError if the interpreter, a distribution, a version or a module is
        another than locked, or a plugin does not load.
        """
        if not _same_interpreter(lock.python, sys.executable):
            raise LockError(
                f"The lock is of {lock.python}, this process runs {sys.executable}.",
                hint="Start omni-host with the interpreter that its stages run in.",
            )
        discovery = discover()
        loaded = [_load_exactly(plugin, discovery) for plugin in lock.plugins]
        unusable = Unusable(broken={}, blocked=frozenset())
        return cls(discovery, loaded, unusable, in_host=False)

    @property
    def discovery(self) -> Discovery:
        """What the plugins were loaded from."""
        return self._discovery

    @property
    def report(self) -> Report:
        """Plugins, claims and every fault so far."""
        found = report_of_discovery(self._discovery, self._unusable.blocked)
        _ = self._offered
        faults = {*found.faults, *self._unusable.broken.values(), *self._calls.faults}
        return replace(
            found,
            plugins=tuple(self._reported(plugin) for plugin in found.plugins),
            faults=tuple(sorted(faults, key=lambda fault: fault.order)),
        )

    def lock(self) -> Lock:
        """The loaded plugins, for the stage processes of this interpreter."""
        return Lock(
            python=os.path.abspath(sys.executable),  # noqa: PTH100 - no links resolved
            plugins=tuple(
                LockedPlugin(
                    name=plugin.name,
                    module=plugin.module.__name__,
                    distribution=plugin.distribution.name,
                    version=plugin.distribution.version,
                )
                for plugin in self._calls.plugins.values()
            ),
        )

    def resolve_model(
        self,
        reference: str,
        revision: str | None = None,
        *,
        owner: str | None = None,
        weights: bool = True,
    ) -> ResolvedModel:
        """Find the model and the plugin that owns it; `owner` overrides what claims say.

        `reference` is an alias, a folder with a `config.json`, or a hub name. Weights are
        fetched from a hub only once the owner is known, and only with `weights`.
        Raises ModelError, UnclaimedError, AmbiguousClaimError, PluginLoadError (the owner
        is broken), HookError, ConfigError (`owner` is no plugin).
        """
        resolver = ModelResolver(self._calls, self._claims, self._unusable)
        resolved, place = resolver.resolve(reference, revision, owner)
        if weights and resolved.model.path is not None and not is_folder(place):
            hub.fetch_files(place, resolved.model.path)
        return resolved

    def build_stages(
        self, owner: str, model: ModelRef, options: Mapping[str, Any], platform: PlatformProbe
    ) -> StageGraph:
        """The owner's graph, with the wrappers of other plugins around it. Raises HookError."""
        if owner not in self._calls.implementers("build_stages"):
            raise HookError(
                f"{self._calls.plugins[owner]} claims {model.reference} and has no build_stages.",
                field=owner,
            )
        return self._calls.ask(
            owner, "build_stages", one(StageGraph), model=model, options=options, platform=platform
        )

    def server_args(
        self,
        owner: str,
        stage: StageSpec,
        platform: PlatformProbe,
        operator: Mapping[str, Sourced],
    ) -> Mapping[str, Sourced]:
        """The stage's arguments in order of name, each with its source.

        Raises HookError for the owner and the platform, ArgumentClashError.
        """
        lower = [owner, *(p for p in self._platform_plugins(platform) if p != owner)]
        asked = self._calls.implementers("customize_server_args")

        def ask(plugin: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
            if plugin not in asked:
                return None
            call = self._calls.ask if plugin in lower else self._calls.ask_isolated
            return call(
                plugin,
                "customize_server_args",
                patch,
                stage=stage,
                server_args=arguments,
                platform=platform,
            )

        ranks = ([owner], lower[1:], [plugin for plugin in asked if plugin not in lower])
        return ranked_arguments(stage, ranks, ask, operator)

    def platform(self, name: str = "auto") -> PlatformProbe:
        """The hardware to run on. Raises PlatformError, HookError, PluginLoadError."""
        return PlatformChoice(self._calls, self._claims, self._unusable).choose(name)

    def transports(self) -> Mapping[str, TransportSpec]:
        """The transports by name."""
        return self._offered.transports

    def engines(self) -> Mapping[str, EngineSpec]:
        """The engines by name."""
        return self._offered.engines

    def launchers(self) -> Mapping[str, LauncherSpec]:
        """The launchers by name."""
        return self._offered.launchers

    def choose_transport(
        self, edge: Edge, candidates: Sequence[TransportSpec], platform: PlatformProbe
    ) -> str | None:
        """The first plugin's choice, in order of plugin name; None if none has one.

        Raises HookError.
        """
        offer = tuple(candidates)
        for plugin in self._calls.implementers("choose_transport"):
            name = self._calls.ask(
                plugin,
                "choose_transport",
                optional(str),
                edge=edge,
                candidates=offer,
                platform=platform,
            )
            if name is None:
                continue
            if name not in {spec.name for spec in offer}:
                raise HookError(
                    f"{self._calls.plugins[plugin]}: choose_transport returned '{name}', which "
                    f"is no candidate for {edge.source} -> {edge.target}.",
                    hint=f'--set edges."{edge.source}->{edge.target}".transport=NAME',
                    field=plugin,
                )
            return name
        return None

    def stage_starting(
        self, stage: StageSpec, context: Any, *, owner: str, platform: PlatformProbe
    ) -> None:
        """Let the plugins prepare this process. Raises HookError for owner and platform."""
        fatal = {owner, *self._platform_plugins(platform)}
        for plugin in self._calls.implementers("stage_starting"):
            call = self._calls.ask if plugin in fatal else self._calls.ask_isolated
            call(plugin, "stage_starting", nothing, stage=stage, context=context)

    def stage_ready(self, stage: StageSpec) -> None:
        """Tell every plugin that asks."""
        list(self._calls.ask_all("stage_ready", nothing, stage=stage))

    def stage_stopped(self, stage: StageSpec, reason: str) -> None:
        """Tell every plugin that asks."""
        list(self._calls.ask_all("stage_stopped", nothing, stage=stage, reason=reason))

    def http_routes(self, context: RouteContext, enabled: Sequence[str]) -> tuple[Any, ...]:
        """The routes (starlette `BaseRoute`) of the plugins that the operator enabled by name.

        Raises ConfigError for a name that adds none.
        """
        routed = self._calls.implementers("http_routes")
        for name in enabled:
            if name not in routed:
                raise ConfigError(
                    f"plugins.routes names '{name}', which is no plugin that adds routes."
                    f"{did_you_mean(name, routed)}",
                    hint=f"plugins that add routes: {', '.join(routed) or 'none'}",
                    field="plugins.routes",
                )
        answers = [
            self._calls.ask_isolated(plugin, "http_routes", each(object), context=context)
            for plugin in routed
            if plugin in enabled
        ]
        return tuple(route for routes in answers for route in routes or ())

    def readiness_checks(self) -> Mapping[str, tuple[ReadinessCheck, ...]]:
        """The checks of each plugin that has some."""
        answers = self._calls.ask_all("readiness_checks", each(ReadinessCheck))
        return {plugin: checks for plugin, checks in answers if checks}

    @cached_property
    def _offered(self) -> Offered:
        return offered(self._calls, self._claims)

    def _platform_plugins(self, platform: PlatformProbe) -> list[str]:
        claimers = self._claims.plugins_for(PLATFORMS, platform.name)
        return [name for name in claimers if name in self._calls.plugins]

    def _reported(self, found: PluginReport) -> PluginReport:
        plugin = self._calls.plugins.get(found.name)
        if plugin is None or plugin.distribution.name != found.distribution:
            return found if found.state == "blocked" else replace(found, state="broken")
        return replace(
            found,
            state="loaded",
            summary=plugin.info.summary,
            api_version=plugin.info.api_version,
            verified=plugin.info.verified,
        )


def _load_exactly(locked: LockedPlugin, discovery: Discovery) -> LoadedPlugin:
    points = [p for p in registrations(discovery) if p.name == locked.name]
    if not points:
        raise LockError(
            f"{locked} is locked, but not installed in {sys.executable}.", field=locked.name
        )
    found = LockedPlugin(
        name=locked.name,
        module=points[0].value,
        distribution=points[0].distribution.name,
        version=points[0].distribution.version,
    )
    if found != locked:
        raise LockError(
            f"{locked} is locked, but {sys.executable} has {found}.",
            hint="restart the server",
            field=locked.name,
        )
    result = load_plugin(points[0])
    if isinstance(result, Fault):
        raise LockError(
            as_sentence(f"{locked} does not load: {result.cause}"),
            hint=result.fix,
            field=locked.name,
        )
    return result


def _same_interpreter(first: str, second: str) -> bool:
    """`python` and `python3` of one environment are the same; those of two are not."""
    first, second = os.path.abspath(first), os.path.abspath(second)  # noqa: PTH100 - as below
    same_folder = os.path.dirname(first) == os.path.dirname(second)  # noqa: PTH120 - no links resolved
    return first == second or (same_folder and os.path.realpath(first) == os.path.realpath(second))
