"""The transport of each edge."""

from __future__ import annotations

from collections.abc import Mapping

from omni_host.deployment import EdgePlan, StagePlan
from omni_host.errors import PluginError
from omni_host.graph import Edge
from omni_host.offers import PlatformProbe, TransportSpec
from omni_host.plugins import Plugins

__all__ = ["HOST_TRANSPORTS", "INLINE", "wire"]

INLINE = "inline"
FALLBACK = "shm"
HOST_TRANSPORTS = frozenset({INLINE, FALLBACK})
"""What carries requests and results between the host and its stages, beside the edges."""


def wire(
    edge: Edge, stages: Mapping[str, StagePlan], platform: PlatformProbe, plugins: Plugins
) -> EdgePlan:
    """Choose: nothing to carry inside one process, else what the edge says, else the plugins.

    Raises PluginError if nobody chooses and `shm` is not there.
    """
    source, target = stages[edge.source], stages[edge.target]
    if source.process == target.process:
        return EdgePlan(edge=edge, transport=INLINE)
    if edge.transport != "auto":
        return EdgePlan(edge=edge, transport=edge.transport)
    candidates = _candidates(plugins.transports(), source.device, target.device)
    chosen = plugins.choose_transport(edge, candidates, platform)
    if chosen is None and FALLBACK not in plugins.transports():
        raise PluginError(
            f"No transport for the edge {edge.source}->{edge.target}: nobody chose one and "
            f"'{FALLBACK}' is not installed.",
            hint=f"Name one: --set 'edges.{edge.source}->{edge.target}.transport={INLINE}'",
        )
    return EdgePlan(edge=edge, transport=chosen or FALLBACK)


def _candidates(
    transports: Mapping[str, TransportSpec], source: str, target: str
) -> tuple[TransportSpec, ...]:
    """Those that carry memory of both devices, or any memory by way of the CPU."""
    ends = {source.partition(":")[0], target.partition(":")[0]}
    return tuple(
        transport
        for _, transport in sorted(transports.items())
        if transport.name != INLINE
        and ("cpu" in transport.device_types or ends <= set(transport.device_types))
    )
