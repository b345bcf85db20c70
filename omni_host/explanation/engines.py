"""Whether the arguments of a stage can be checked where its engine runs."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from omni_host.deployment import Deployment, StagePlan

__all__ = ["unchecked"]


def unchecked(stage: StagePlan, deployment: Deployment) -> str:
    """Why nobody can say here whether the stage's arguments exist; empty if it can be told.

    Looks for the engine's modules without importing them.
    """
    if stage.engine is None:
        return ""
    process = next(p for p in deployment.processes if p.name == stage.process)
    if process.python != sys.executable:
        return f"unchecked: {stage.engine.name} is that of {process.python}"
    missing = [name for name in stage.engine.requires if find_spec(name.partition(".")[0]) is None]
    if not missing:
        return ""
    fix = f", {stage.engine.install_hint}" if stage.engine.install_hint else ""
    return f"unchecked: {', '.join(missing)} is not installed{fix}"
