"""Opening a recording that nobody vouches for."""

from __future__ import annotations

from functools import cache
from typing import BinaryIO

import av
from av.container import InputContainer

__all__ = ["Recording", "open_container", "tells_length"]

DEMUXERS = (
    *("aac", "ac3", "aiff", "amr", "ape", "asf", "au", "avi", "caf", "eac3", "flac", "flv"),
    *("matroska", "mov", "mp3", "mpeg", "mpegts", "nistsphere", "ogg", "tta", "voc", "w64"),
    *("wav", "wv"),
)
"""FFmpeg's names of what is read. Playlists, which would open other files, are not among
them, nor are the many formats of games and devices."""

DECLARING = frozenset({"aiff", "au", "flac", "matroska,webm", "tta", "wv"})
"""Containers whose header states the length, which FFmpeg reports as it stands there."""

NO_PROTOCOL = "none"

HEAD = 4096
"""Bytes in which a WAV header ends, unless it has a book in it."""

RIFF_UNKNOWN = 0x7FFFFFFF
"""From here on a size in a WAV header stands for one that nobody knew."""


class Recording:
    """What FFmpeg reads from: a binary file object, of which so many bytes are taken.

    Beyond, it ends. An exception of its own would be printed by PyAV, and might be lost.
    """

    def __init__(self, source: BinaryIO, max_bytes: int) -> None:
        self.size = 0
        self._source = source
        self._max_bytes = max_bytes
        self._seekable = source.seekable()
        self._head = b""

    @property
    def is_over(self) -> bool:
        """Whether there were more bytes than are taken."""
        return self.size > self._max_bytes

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        data = b"" if self.is_over else self._source.read(size)[:size]
        if not data:
            return b""
        end = self.tell() if self._seekable else self.size + len(data)
        if len(self._head) < HEAD and end - len(data) == len(self._head):
            self._head += data
        self.size = max(self.size, end)
        return data

    def seekable(self) -> bool:
        """Whether the file object is."""
        return self._seekable

    def seek(self, offset: int, whence: int = 0) -> int:
        """As the file object does."""
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        """As the file object does."""
        return self._source.tell()

    def is_cut(self) -> bool:
        """Whether this is a WAV file that ends before its header says; FFmpeg overlooks it."""
        if self._head[:4] != b"RIFF":
            return False
        at = 12
        while at + 8 <= len(self._head):
            size = int.from_bytes(self._head[at + 4 : at + 8], "little")
            if self._head[at : at + 4] == b"data":
                return self.size < at + 8 + size < RIFF_UNKNOWN
            at += 8 + size + size % 2
        return False


def open_container(recording: Recording) -> InputContainer:
    """Raises av.FFmpegError if it is nothing that is read here."""
    return av.open(
        recording,
        "r",
        metadata_errors="replace",
        container_options={
            "format_whitelist": ",".join(DEMUXERS),
            "codec_whitelist": _audio_codecs(),
            "protocol_whitelist": NO_PROTOCOL,
            # A stream that is still being written is heard after a second, not after five.
            "analyzeduration": "1000000",
            "max_probe_packets": "4",
        },
    )


def tells_length(container: InputContainer) -> float | None:
    """The seconds that the header states, where that can be relied on."""
    if container.format.name not in DECLARING or len(container.streams) != 1:
        return None
    return None if container.duration is None else container.duration / av.time_base


@cache
def _audio_codecs() -> str:
    """Every audio codec, so that no picture or film is decoded only to look at it."""
    return ",".join(sorted(filter(_decodes_audio, av.codecs_available)))


def _decodes_audio(name: str) -> bool:
    try:
        return av.Codec(name, "r").type == "audio"
    except ValueError:
        return False
