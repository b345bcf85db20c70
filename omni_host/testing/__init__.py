"""The conformance kit: what a plugin's own tests inherit and use (extra `testing`).

Names are imported when they are first used, so that pytest runs which have nothing to do
with omni-host pay nothing for its pytest plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_host.testing.model_contract import ModelPluginContract
    from omni_host.testing.served_model import ServedModel, SpeechStream

__all__ = ["ModelPluginContract", "ServedModel", "SpeechStream"]

_HOMES = {
    "ModelPluginContract": "model_contract",
    "ServedModel": "served_model",
    "SpeechStream": "served_model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
