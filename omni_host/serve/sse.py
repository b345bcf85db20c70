"""Server-sent events as OpenAI's clients read them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from omni_host.errors import OmniError
from omni_host.serve.errors import error_data

__all__ = ["audio_events", "error_event", "event"]

MAX_AUDIO_BYTES = 24_576
"""Audio in one event, so that a line stays well under the 64 KiB some readers allow."""


def event(data: Mapping[str, Any]) -> bytes:
    """One event, named by the `type` of its data."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def audio_events(audio: bytes) -> Iterator[bytes]:
    """`speech.audio.delta` events for these bytes, several where they are many."""
    for start in range(0, len(audio), MAX_AUDIO_BYTES):
        piece = base64.b64encode(audio[start : start + MAX_AUDIO_BYTES]).decode()
        yield event({"type": "speech.audio.delta", "audio": piece})


def error_event(error: OmniError) -> bytes:
    """The last event of a stream that failed; the official client raises it."""
    return event({"type": "error", **error_data(error)})
