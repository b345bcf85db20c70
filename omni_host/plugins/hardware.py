"""The choice of a hardware platform among the probes of the plugins."""

from __future__ import annotations

from omni_host.errors import AmbiguousClaimError, PlatformError
from omni_host.offers import PlatformProbe, PlatformRequest
from omni_host.plugins.calls import HookCalls
from omni_host.plugins.claims import Claims
from omni_host.plugins.faults import did_you_mean
from omni_host.plugins.results import optional
from omni_host.plugins.unusable import Unusable

__all__ = ["PlatformChoice"]

PLATFORMS = "omni_host.platforms"
AUTO = "auto"


class PlatformChoice:
    """Asks `hardware_platform`, and holds the answers to the claims."""

    def __init__(self, calls: HookCalls, claims: Claims, unusable: Unusable) -> None:
        self._calls = calls
        self._claims = claims
        self._unusable = unusable

    def choose(self, name: str) -> PlatformProbe:
        """The platform `name`, or for `auto` the one of the highest priority.

        Raises PlatformError if it is not there or several tie, and HookError if the
        probe that was asked for fails.
        """
        return self._best() if name == AUTO else self._named(name)

    def _best(self) -> PlatformProbe:
        request = PlatformRequest(name=AUTO)
        answers = self._calls.ask_all("hardware_platform", optional(PlatformProbe), request=request)
        probes = [
            probe for plugin, probe in answers if probe is not None and self._claimed(plugin, probe)
        ]
        if not probes:
            raise PlatformError(
                f"No installed plugin found hardware to run on.{self._unusable.summary()}",
                hint="omni list-plugins",
                field="platform.name",
            )
        highest = max(probe.priority for probe in probes)
        best = [probe for probe in probes if probe.priority == highest]
        if len(best) > 1:
            raise PlatformError(
                f"Several platforms have priority {highest}: {', '.join(p.name for p in best)}.",
                hint=" or ".join(f"--set platform.name={p.name}" for p in best),
                field="platform.name",
            )
        return best[0]

    def _named(self, name: str) -> PlatformProbe:
        plugin = self._provider(name)
        request = PlatformRequest(name=name)
        probe = self._calls.ask(
            plugin, "hardware_platform", optional(PlatformProbe), request=request
        )
        if probe is None or probe.name != name:
            raise PlatformError(
                f"{self._calls.plugins[plugin]} found no '{name}' hardware here.",
                hint="--set platform.name=auto",
                field="platform.name",
            )
        return probe

    def _claimed(self, plugin: str, probe: PlatformProbe) -> bool:
        claimed = plugin in self._claims.plugins_for(PLATFORMS, probe.name)
        if not claimed:
            cause = f"hardware_platform found '{probe.name}', which [{PLATFORMS}] does not claim"
            self._calls.record(plugin, "offer-without-claim", cause)
        return claimed

    def _provider(self, name: str) -> str:
        claimers = self._claims.plugins_for(PLATFORMS, name)
        usable = [plugin for plugin in claimers if plugin in self._calls.plugins]
        if claimers and not usable:
            raise self._unusable.error(claimers, f"the platform '{name}'")
        if not usable:
            known = self._claims.names(PLATFORMS)
            raise PlatformError(
                f"No installed plugin provides the platform '{name}'.{did_you_mean(name, known)}",
                hint=f"installed platforms: {', '.join(known) or 'none'}",
                field="platform.name",
            )
        if len(usable) > 1:
            raise AmbiguousClaimError(
                f"Several plugins provide the platform '{name}': {', '.join(usable)}.",
                hint=" or ".join(f"--plugins-block {plugin}" for plugin in usable),
                field="platform.name",
            )
        return usable[0]
