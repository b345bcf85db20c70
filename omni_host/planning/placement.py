"""Devices and processes: what runs where."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from omni_host.config.keys import dotted
from omni_host.config.settings import Settings
from omni_host.deployment import ProcessPlan
from omni_host.errors import ConfigError, PlatformError
from omni_host.graph import StageSpec
from omni_host.offers import PlatformProbe

__all__ = ["device_of", "processes_of"]


def device_of(stage: StageSpec, platform: PlatformProbe) -> str:
    """The device in torch's spelling with its index, such as `cuda:0`; the CPU is always there.

    Raises PlatformError where the platform has no such device.
    """
    if stage.device == "auto":
        return platform.devices[0]
    if stage.device == "cpu" or stage.device in platform.devices:
        return stage.device
    for device in platform.devices:
        if device.partition(":")[0] == stage.device:
            return device
    raise PlatformError(
        f"Stage {stage.name} wants device {stage.device}; platform {platform.name} has "
        f"{', '.join(platform.devices)}.",
        hint=f"--set stages.{stage.name}.device={platform.devices[0]}",
        field=dotted(("stages", stage.name, "device")),
    )


def processes_of(stages: Sequence[StageSpec], settings: Settings) -> tuple[ProcessPlan, ...]:
    """Group stages by process, in the order of the graph.

    Raises ConfigError where stages of one process want different interpreters or
    different values of one environment variable.
    """
    groups: dict[str, list[StageSpec]] = {}
    for stage in stages:
        groups.setdefault(stage.process or stage.name, []).append(stage)
    return tuple(_process(name, group, settings) for name, group in groups.items())


def _process(name: str, stages: Sequence[StageSpec], settings: Settings) -> ProcessPlan:
    first = stages[0]
    python = _interpreter(first, settings)
    env = dict(first.env)
    set_by = dict.fromkeys(env, first)
    for stage in stages[1:]:
        other = _interpreter(stage, settings)
        if other != python:
            raise _clash(name, first, stage, "python", (python, other), settings)
        for variable, value in stage.env.items():
            if env.setdefault(variable, value) != value:
                values = (env[variable], value)
                raise _clash(name, set_by[variable], stage, f"env.{variable}", values, settings)
            set_by.setdefault(variable, stage)
    return ProcessPlan(
        name=name, stages=tuple(stage.name for stage in stages), python=python, env=env
    )


def _interpreter(stage: StageSpec, settings: Settings) -> str:
    if stage.python is None:
        return sys.executable
    found = shutil.which(stage.python)
    if found is None:
        key = ("stages", stage.name, "python")
        raise ConfigError(
            f"{dotted(key)} = {stage.python!r} (from {_source(settings, stage, 'python')}) "
            "is no interpreter that can be run.",
            hint=f"--set {dotted(key)}=/path/to/venv/bin/python",
            field=dotted(key),
        )
    return found


def _clash(
    process: str,
    first: StageSpec,
    second: StageSpec,
    what: str,
    values: tuple[str, str],
    settings: Settings,
) -> ConfigError:
    key = f"{dotted(('stages', second.name))}.{what}"
    return ConfigError(
        f"Stages {first.name} and {second.name} share process {process} but want different "
        f"{what}: {values[0]!r} (from {_source(settings, first, what)}) and "
        f"{values[1]!r} (from {_source(settings, second, what)}).",
        hint=f"Set {key} to one value, or part them: --set stages.{second.name}.process="
        f"{second.name}",
        field=key,
    )


def _source(settings: Settings, stage: StageSpec, what: str) -> str:
    key = ("stages", stage.name, *what.split(".", 1))
    return settings.entries[key].source if key in settings.entries else "the graph"
