"""`--field NAME=VALUE`: request fields of a model's own."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omni_host.config.sources import literal
from omni_host.errors import UsageError
from omni_host.graph import Task

__all__ = ["field_values"]


def field_values(assignments: Iterable[str], task: Task) -> dict[str, Any]:
    """The fields as a JSON request would carry them; whoever reads the request checks them.

    `@FILE` stands for the file's bytes in base64, where audio is wanted.
    """
    types = {field.name: field.type for field in task.fields}
    values: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--field {text} has no value.", hint=f"--field {name or 'name'}=VALUE"
            )
        kind = types.get(name)
        if kind == "audio" and value.startswith("@"):
            values[name] = _base64(Path(value[1:]), name)
        else:
            values[name] = value if kind in {"string", "audio"} else literal(value)
    return values


def _base64(path: Path, name: str) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise UsageError(
            f"--field {name}: {path} cannot be read: {error.strerror}.", field=name
        ) from None
