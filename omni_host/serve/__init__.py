"""The OpenAI-compatible API over a pipeline.

Names are imported when they are first used: `omni speak` checks a request and encodes
audio, and needs no web framework for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_host.serve.app import create_app
    from omni_host.serve.metrics import Metrics
    from omni_host.serve.options import ServeOptions
    from omni_host.serve.server import Server

__all__ = ["Metrics", "ServeOptions", "Server", "create_app"]

_HOMES = {
    "Metrics": "metrics",
    "ServeOptions": "options",
    "Server": "server",
    "create_app": "app",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
