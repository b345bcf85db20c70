"""The task that `omni speak` and the API of `omni serve` are about."""

from __future__ import annotations

from omni_host.deployment import Deployment
from omni_host.errors import UsageError
from omni_host.graph import Task

__all__ = ["SPEECH", "speech_task"]

SPEECH = "speech"


def speech_task(deployment: Deployment) -> Task:
    """Raises UsageError for a model that does not speak."""
    tasks = {task.name: task for task in deployment.graph.tasks}
    if SPEECH not in tasks:
        raise UsageError(
            f"The model {deployment.name} does not speak, and nothing else is served yet; its "
            f"tasks: {', '.join(tasks)}.",
            hint=f"Take a model with a task '{SPEECH}', or name one of this model's so.",
            field="model",
        )
    return tasks[SPEECH]
