"""What the checks of a contract share: the plugin, its graph, its processes, its audio."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omni_host.config.tables import Configuration
from omni_host.graph import StageGraph
from omni_host.offers import PlatformProbe
from omni_host.plugins import Plugins, ResolvedModel, discover
from omni_host.plugins.lock import LockedPlugin
from omni_host.testing.probe import ProbeOrder, ProbeReport, probe
from omni_host.testing.served_model import Audio, ServedModel, settings_of

__all__ = ["ModelUnderTest"]

_SETTINGS = (
    # Every stage meets a client that has not read yet.
    "limits.result_credits=1",
    # Processes are killed on purpose.
    "health.failures=1000",
    "health.backoff_seconds=0.01",
    "health.backoff_most_seconds=0.1",
)
_LONG_REPEATS = 20


@dataclass(kw_only=True)
class ModelUnderTest:
    """One contract's model. What is slow is done when it is first asked for, and once.

    Attributes:
        reference: alias, folder or hub name.
        requests: sample speech requests, mappings of `text` and fields.
        long_text: of the request that is cancelled; None repeats the first request's.
        options: the `[model]` table.
        settings: as for `--set`.
        tolerance: how far two samples of the same request may be apart.
        patience_s: how long to wait for anything.
    """

    reference: str
    requests: Sequence[Mapping[str, Any]]
    long_text: str | None
    options: Mapping[str, Any]
    settings: Sequence[str]
    tolerance: float
    patience_s: float
    _served: ServedModel | None = None
    _placement: str = ""

    # The plugin.

    @cached_property
    def plugins(self) -> Plugins:
        return Plugins.load(discover())

    @cached_property
    def resolved(self) -> ResolvedModel:
        model = self._values.model
        return self.plugins.resolve_model(self.reference, model.revision, owner=model.owner)

    @property
    def plugin(self) -> LockedPlugin:
        """The plugin that owns the model."""
        (found,) = (p for p in self.plugins.lock().plugins if p.name == self.resolved.owner)
        return found

    @cached_property
    def platform(self) -> PlatformProbe:
        return self.plugins.platform(self._values.platform.name)

    @cached_property
    def graph(self) -> StageGraph:
        """As the plugin builds it, before any setting changes it."""
        return self.plugins.build_stages(
            self.resolved.owner, self.resolved.model, self._values.model.options, self.platform
        )

    @cached_property
    def probe(self) -> ProbeReport:
        """What a fresh interpreter sees of it."""
        return self._probe(hash_seed=1)

    @cached_property
    def second_probe(self) -> ProbeReport:
        """What another one sees, which goes through sets in another order."""
        return self._probe(hash_seed=2)

    def _probe(self, *, hash_seed: int) -> ProbeReport:
        order = ProbeOrder(
            path=tuple(sys.path),
            module=self.plugin.module,
            plugin=self.plugin.name,
            reference=self.reference,
            revision=self._values.model.revision,
            options=dict(self._values.model.options),
            platform=self.platform,
        )
        return probe(order, hash_seed=hash_seed)

    # The model as it runs. One at a time: it may fill the machine.

    def served(self, placement: str = "graph") -> ServedModel:
        """The running model, started again if it runs otherwise or is not well.

        What was served before is stopped then.
        """
        if self._served is None or placement != self._placement or not _is_well(self._served):
            return self.restarted(placement)
        return self._served

    def restarted(self, placement: str = "graph") -> ServedModel:
        """The model, started anew."""
        self.stop()
        served = ServedModel(
            self.reference,
            *_SETTINGS,
            *self.settings,
            f"placement={placement}",
            options=self.options,
            patience_s=self.patience_s,
        )
        served.start()
        self._served, self._placement = served, placement
        return served

    def stop(self) -> None:
        """Stop what was started."""
        served, self._served = self._served, None
        if served is not None:
            served.stop()

    # Requests.

    def request(self, index: int, served: ServedModel) -> Mapping[str, Any]:
        """A sample request, with a seed if the model takes one."""
        return {**self._seed(served), **self.requests[index]}

    def long_request(self, served: ServedModel) -> Mapping[str, Any]:
        """One that takes long enough to be left midway."""
        first = self.request(0, served)
        text = str(first["text"]).strip() + " "
        times = max(1, min(_LONG_REPEATS, served.task.max_characters // len(text)))
        return {**first, "text": self.long_text or (text * times).strip()}

    @cached_property
    def alone(self) -> tuple[Audio, ...]:
        """The audio of each sample request when it is the only one there."""
        served = self.served()
        requests = [self.request(index, served) for index in range(len(self.requests))]
        return tuple(served.speak(**request) for request in requests)

    @cached_property
    def _values(self) -> Configuration:
        return settings_of(self.settings, self.options).values

    def _seed(self, served: ServedModel) -> Mapping[str, Any]:
        return {"seed": 1} if any(f.name == "seed" for f in served.task.fields) else {}


def _is_well(served: ServedModel) -> bool:
    snapshot = served.snapshot()
    return snapshot.state == "ready" and not snapshot.running
