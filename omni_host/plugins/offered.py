"""What the plugins offer: transports, engines and launchers, checked against their claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from omni_host.offers import EngineSpec, LauncherSpec, TransportSpec
from omni_host.plugins.calls import HookCalls
from omni_host.plugins.claims import Claims
from omni_host.plugins.discovery import HOST_PLUGIN
from omni_host.plugins.faults import Fault, FaultKind, upgrade_or_block
from omni_host.plugins.results import each

__all__ = ["Offered", "offered"]

Spec = TypeVar("Spec", TransportSpec, EngineSpec, LauncherSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Offers by name, those that are claimed and unambiguous, and what is wrong with others."""

    transports: dict[str, TransportSpec]
    engines: dict[str, EngineSpec]
    launchers: dict[str, LauncherSpec]
    faults: tuple[Fault, ...]


def offered(calls: HookCalls, claims: Claims) -> Offered:
    """Ask every plugin what it offers."""
    faults: list[Fault] = []
    return Offered(
        transports=_gather(
            calls, claims, "omni_host.transports", "stage_transports", TransportSpec, faults
        ),
        engines=_gather(calls, claims, "omni_host.engines", "stage_engines", EngineSpec, faults),
        launchers=_gather(
            calls, claims, "omni_host.launchers", "stage_launchers", LauncherSpec, faults
        ),
        faults=(
            *faults,
            *_unanswered(calls, claims, "omni_host.platforms", ("hardware_platform",)),
            *_unanswered(calls, claims, "omni_host.models", ("build_stages", "claim_model")),
        ),
    )


def _gather(
    calls: HookCalls,
    claims: Claims,
    group: str,
    hook: str,
    kind: type[Spec],
    faults: list[Fault],
) -> dict[str, Spec]:
    offers: dict[str, dict[str, Spec]] = {}
    failed: set[str] = set()
    for plugin, specs in calls.ask_all(hook, each(kind)):
        if specs is None:
            failed.add(plugin)
            continue
        for spec in specs:
            if plugin not in claims.plugins_for(group, spec.name):
                cause = f"{hook} offers '{spec.name}', which [{group}] does not claim"
                faults.append(_fault(calls, plugin, "offer-without-claim", cause))
            elif plugin in offers.setdefault(spec.name, {}):
                cause = f"{hook} offers '{spec.name}' twice"
                faults.append(_fault(calls, plugin, "duplicate-offer", cause))
            else:
                offers[spec.name][plugin] = spec
    for claim in claims.entries:
        unmet = claim.plugin not in failed and claim.plugin not in offers.get(claim.name, {})
        if claim.group == group and claim.plugin in calls.plugins and unmet:
            cause = f"[{group}] claims '{claim.name}', which {hook} does not offer"
            faults.append(_fault(calls, claim.plugin, "claim-without-offer", cause))
    return {
        name: rivals[winner]
        for name, rivals in sorted(offers.items())
        if (winner := _winner(calls, group, name, list(rivals), faults)) is not None
    }


def _winner(
    calls: HookCalls, group: str, name: str, plugins: list[str], faults: list[Fault]
) -> str | None:
    """The only plugin that offers `name`. What the host itself offers cannot be taken away."""
    hosts = HOST_PLUGIN in plugins
    if len(plugins) > 1:
        for plugin in plugins:
            if plugin != HOST_PLUGIN:
                others = ", ".join(p for p in plugins if p != plugin)
                cause = f"'{name}' of [{group}] is also offered by {others}"
                fix = f"leave it out: --plugins-block {plugin}"
                faults.append(_fault(calls, plugin, "duplicate-offer", cause, fix))
    if hosts:
        return HOST_PLUGIN
    return plugins[0] if len(plugins) == 1 else None


def _unanswered(
    calls: HookCalls, claims: Claims, group: str, hooks: tuple[str, ...]
) -> Iterator[Fault]:
    answering = {plugin for hook in hooks for plugin in calls.implementers(hook)}
    for claim in claims.entries:
        silent = claim.plugin in calls.plugins and claim.plugin not in answering
        if claim.group == group and silent:
            cause = f"[{group}] claims '{claim.name}', but there is no {' or '.join(hooks)}"
            yield _fault(calls, claim.plugin, "claim-without-offer", cause)


def _fault(calls: HookCalls, plugin: str, kind: FaultKind, cause: str, fix: str = "") -> Fault:
    distribution = calls.plugins[plugin].distribution
    return Fault(
        plugin=plugin,
        distribution=distribution.name,
        version=distribution.version,
        kind=kind,
        cause=cause,
        fix=fix or upgrade_or_block(plugin, distribution.name),
    )
