"""Audio as bytes: formats to answer in, recordings to listen to, and filters between.

FFmpeg does the work, through PyAV. It is imported when it is first needed, which takes
some tenths of a second: call for the first time beside an event loop, not on it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_host.audio.decoding import AudioLimits, decode, decode_chunks
    from omni_host.audio.filters import Resampler, Tempo
    from omni_host.audio.formats import FORMATS, AudioFormat, Encoder
    from omni_host.audio.pcm import pcm16, wav_header

__all__ = [
    "FORMATS",
    "AudioFormat",
    "AudioLimits",
    "Encoder",
    "Resampler",
    "Tempo",
    "decode",
    "decode_chunks",
    "pcm16",
    "wav_header",
]

_HOMES = {
    "FORMATS": "formats",
    "AudioFormat": "formats",
    "AudioLimits": "decoding",
    "Encoder": "formats",
    "Resampler": "filters",
    "Tempo": "filters",
    "decode": "decoding",
    "decode_chunks": "decoding",
    "pcm16": "pcm",
    "wav_header": "pcm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
