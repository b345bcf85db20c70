"""Dotted names, `package.module:attribute`, resolved in the process that uses them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from omni_host.errors import PluginLoadError

__all__ = ["make_offered", "resolve"]


def resolve(target: str) -> Any:
    """What `target` names. Raises whatever importing it raises, or AttributeError."""
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    return found


def make_offered(what: str, target: str, *arguments: Any) -> Any:
    """Call what a plugin offers as `what`, such as `transport shm`.

    Raises PluginLoadError if it is not there.
    """
    try:
        maker = resolve(target)
    except (ImportError, AttributeError) as error:
        raise PluginLoadError(f"The {what} cannot be used: {error}.") from error
    return maker(*arguments)
