"""What the plugins offer: transports, engines and launchers, checked against their claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from omni_host.offers import EngineSpec, LauncherSpec, TransportSpec
from omni_host.plugins.calls import HookCalls
from omni_host.plugins.claims import Claims
from omni_host.plugins.discovery import HOST_PLUGIN
from omni_host.plugins.results import each

__all__ = ["Offered", "offered"]

Spec = TypeVar("Spec", TransportSpec, EngineSpec, LauncherSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Offers by name, those that are claimed and unambiguous."""

    transports: dict[str, TransportSpec]
    engines: dict[str, EngineSpec]
    launchers: dict[str, LauncherSpec]


def offered(calls: HookCalls, claims: Claims) -> Offered:
    """Ask every plugin what it offers; where claims and offers do not meet is a fault."""
    _report_unanswered(calls, claims, "omni_host.platforms", ("hardware_platform",))
    _report_unanswered(calls, claims, "omni_host.models", ("build_stages", "claim_model"))
    return Offered(
        transports=_gather(
            calls, claims, "omni_host.transports", "stage_transports", TransportSpec
        ),
        engines=_gather(calls, claims, "omni_host.engines", "stage_engines", EngineSpec),
        launchers=_gather(calls, claims, "omni_host.launchers", "stage_launchers", LauncherSpec),
    )


def _gather(
    calls: HookCalls, claims: Claims, group: str, hook: str, kind: type[Spec]
) -> dict[str, Spec]:
    offers: dict[str, dict[str, Spec]] = {}
    failed: set[str] = set()
    for plugin, specs in calls.ask_all(hook, each(kind)):
        if specs is None:
            failed.add(plugin)
        for spec in specs or ():
            rivals = offers.setdefault(spec.name, {})
            if plugin not in claims.plugins_for(group, spec.name):
                cause = f"{hook} offers '{spec.name}', which [{group}] does not claim"
                calls.record(plugin, "offer-without-claim", cause)
            elif rivals.setdefault(plugin, spec) is not spec:
                calls.record(plugin, "duplicate-offer", f"{hook} offers '{spec.name}' twice")
    for claim in claims.entries:
        answered = claim.plugin in calls.plugins and claim.plugin not in failed
        if claim.group == group and answered and claim.plugin not in offers.get(claim.name, {}):
            cause = f"[{group}] claims '{claim.name}', which {hook} does not offer"
            calls.record(claim.plugin, "claim-without-offer", cause)
    winners = {name: _winner(calls, group, name, list(of)) for name, of in sorted(offers.items())}
    return {name: offers[name][winner] for name, winner in winners.items() if winner is not None}


def _winner(calls: HookCalls, group: str, name: str, plugins: list[str]) -> str | None:
    """The only plugin that offers `name`. What the host itself offers cannot be taken away."""
    if len(plugins) == 1:
        return plugins[0]
    for plugin in plugins:
        if plugin != HOST_PLUGIN:
            others = ", ".join(other for other in plugins if other != plugin)
            cause = f"'{name}' of [{group}] is also offered by {others}"
            calls.record(plugin, "duplicate-offer", cause, f"--plugins-block {plugin}")
    return HOST_PLUGIN if HOST_PLUGIN in plugins else None


def _report_unanswered(
    calls: HookCalls, claims: Claims, group: str, hooks: tuple[str, ...]
) -> None:
    answering = {plugin for hook in hooks for plugin in calls.implementers(hook)}
    for claim in claims.entries:
        if claim.group == group and claim.plugin in calls.plugins.keys() - answering:
            cause = f"[{group}] claims '{claim.name}', but there is no {' or '.join(hooks)}"
            calls.record(claim.plugin, "claim-without-offer", cause)
