"""What a plugin is and what it offers, as data: the return types of most hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "API_VERSION",
    "Claim",
    "EngineSpec",
    "LauncherSpec",
    "ModelRef",
    "PlatformProbe",
    "PlatformRequest",
    "PluginInfo",
    "ReadinessCheck",
    "RouteContext",
    "Sourced",
    "TransportSpec",
]

API_VERSION = 1
"""The plugin API. The host supports this one and the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """`PLUGIN = PluginInfo(...)` in the plugin's module.

    Attributes:
        name: as in the entry point of group `omni_host.plugins`.
        summary: one line for `omni list-plugins`.
        api_version: the `API_VERSION` the plugin was written for.
        verified: where it was tried, such as "H200, 2026-12"; empty if nowhere.
    """

    name: str
    summary: str
    api_version: int = API_VERSION
    verified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A model as the operator named it, resolved as far as reading one file goes.

    Attributes:
        reference: what was typed: a folder, an alias or a hub name.
        path: the folder, once there is one.
        config: its `config.json`, empty as long as there is no folder.
        revision: the hub revision, or None.
    """

    reference: str
    path: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A plugin's answer to `claim_model`: "this is mine, and here it is".

    `path` is a folder or a hub name that holds a `config.json`; None when the
    model's own folder is meant.
    """

    path: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSpec:
    """A way to move tensors between processes.

    `target` (`package.module:attribute`, resolved in each process that uses it)
    is called with a `TransportContext` and gives a `Transport`
    (see `omni_host.transports`).
    `device_types` are the memory kinds it carries without a copy through the CPU.
    `same_host` says that both ends must be on one machine.
    """

    name: str
    target: str
    summary: str = ""
    device_types: tuple[str, ...] = ("cpu",)
    same_host: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """An engine for autoregressive stages; `target` is resolved in the stage process.

    `requires` are importable module names it cannot do without; `install_hint`
    is the command that brings them.
    """

    name: str
    target: str
    summary: str = ""
    requires: tuple[str, ...] = ()
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherSpec:
    """A way to start stage processes; `target` is resolved in the host."""

    name: str
    target: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRequest:
    """What the operator asked for: a platform's name, or `auto`."""

    name: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformProbe:
    """Hardware that a platform plugin found.

    Attributes:
        name: `cpu`, `cuda`, ... as in the entry point.
        devices: device names in torch's spelling, such as `cuda:0`.
        priority: among the platforms found, the highest is used when the operator
            did not choose; a tie is an error. The CPU has 0.
        default_engine: the engine of stages that leave it to the platform.
        memory_bytes: memory of each device, in the order of `devices`.
        notes: facts for `omni explain --format json`.
    """

    name: str
    devices: tuple[str, ...]
    priority: int
    default_engine: str = "torch"
    memory_bytes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteContext:
    """What `http_routes` may know: the models served, by name."""

    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessCheck:
    """One answer of `readiness_checks`: what was looked at, whether it is fine, and the fix."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A value and where it came from, such as `plugin omni-qwen3-tts` or `--set`."""

    value: Any
    source: str
