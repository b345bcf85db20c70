"""The host's own plugin: the CPU platform, transports, engines and launcher."""

from __future__ import annotations

from omni_host.api import (
    EngineSpec,
    LauncherSpec,
    PlatformProbe,
    PlatformRequest,
    PluginInfo,
    TransportSpec,
    hookimpl,
)
from omni_host.platforms import cpu

PLUGIN = PluginInfo(name="builtin", summary="CPU platform, transports, engines and local launcher")


@hookimpl
def hardware_platform(request: PlatformRequest) -> PlatformProbe | None:
    """The CPU."""
    return cpu.probe() if request.name in {"auto", "cpu"} else None


@hookimpl
def stage_transports() -> tuple[TransportSpec, ...]:
    """`inline` in the message, `shm` through shared memory."""
    return (
        TransportSpec(
            name="inline",
            target="omni_host.transports.inline:InlineTransport",
            summary="in the message itself",
            same_host=False,
        ),
        TransportSpec(
            name="shm",
            target="omni_host.transports.shm:ShmTransport",
            summary="through pooled shared memory",
        ),
    )


@hookimpl
def stage_engines() -> tuple[EngineSpec, ...]:
    """`torch`, the host's own, and `sglang`."""
    return (
        EngineSpec(
            name="torch",
            target="omni_host.engines.torch_engine:TorchEngine",
            summary="continuous batching in plain torch",
            requires=("torch",),
            install_hint="pip install 'omni-host[torch]'",
        ),
        EngineSpec(
            name="sglang",
            target="omni_host.engines.sglang_engine:SglangEngine",
            summary="on SGLang's batch, cache and worker classes",
            requires=("torch", "sglang"),
            install_hint="omni install-engine sglang",
        ),
    )


@hookimpl
def stage_launchers() -> tuple[LauncherSpec, ...]:
    """`local`: processes on this machine."""
    return (
        LauncherSpec(
            name="local",
            target="omni_host.runtime.launcher:LocalLauncher",
            summary="processes on this machine",
        ),
    )
