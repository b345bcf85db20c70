"""Any recording to float32 mono samples, within limits."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from omni_host.audio.containers import Recording, open_container, tells_length
from omni_host.audio.filter_graph import FilterGraph
from omni_host.audio.filters import resampling
from omni_host.errors import InvalidRequestError

__all__ = ["AudioLimits", "decode", "decode_chunks"]

RATES = range(1_000, 768_001)
ROUNDING_S = 1e-6
PACKET_SAMPLES = 1024
MAX_CHANNELS = 64
"""What FFmpeg's pan filter can mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioLimits:
    """What a client may send to be listened to.

    Attributes:
        max_bytes: of the recording as it is sent; the default is OpenAI's limit.
        max_seconds: of its audio.
        max_samples: of its audio as it was recorded, all channels together: what
            decoding costs, however few bytes they were packed into. A packet costs
            something too, however little is in it, and counts as 1,024.
    """

    max_bytes: int = 25 * 2**20
    max_seconds: float = 3600.0
    max_samples: int = 2**31


def decode(
    recording: bytes,
    sample_rate: int,
    *,
    limits: AudioLimits = AudioLimits(),
    field: str = "file",
) -> NDArray[np.float32]:
    """A whole recording as float32 samples [n], mono, at `sample_rate` Hz.

    Channels are averaged. Any container and codec of FFmpeg's that carries speech is read;
    no other file and no network is, whatever the recording says.

    Raises InvalidRequestError that names `field` if the recording is empty, cut off or
    damaged, has no audio, is none, or is beyond the limits.
    """
    chunks = decode_chunks(io.BytesIO(recording), sample_rate, limits=limits, field=field)
    return np.concatenate(list(chunks))


def decode_chunks(
    source: BinaryIO,
    sample_rate: int,
    *,
    limits: AudioLimits = AudioLimits(),
    field: str = "file",
) -> Iterator[NDArray[np.float32]]:
    """The same piece by piece, in constant memory, while `source` is read.

    `source` may be a pipe that is still being written. Then what keeps its index at the
    end, as many an MP4 file does, cannot be read. At least one chunk comes, none is empty.
    """
    fault = _Fault(field)
    recording = Recording(source, limits.max_bytes)
    try:
        yield from _decoded(recording, _Mixer(sample_rate), _Budget(limits, fault), fault)
    except InvalidRequestError:
        if recording.is_over:
            raise fault.too_long(limits.max_bytes, "bytes") from None
        raise


def _decoded(
    recording: Recording, mixer: _Mixer, budget: _Budget, fault: _Fault
) -> Iterator[NDArray[np.float32]]:
    with _opened(recording, fault) as container:
        for frame in _frames(container, budget, fault):
            yield from _some(mixer.write(frame))
        yield from _some(mixer.finish())
        if not budget.seconds:
            raise fault("is zero seconds long")
        declared = tells_length(container) or 0.0
        short = declared - budget.seconds > max(0.1, 0.01 * declared)
        if short or recording.is_cut() or recording.is_over:
            raise fault(f"is cut off: it ends after {budget.seconds:.2f} s of audio")


class _Fault:
    """Makes the error of one field."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __call__(self, what: str, hint: str = "") -> InvalidRequestError:
        return InvalidRequestError(f"The audio {what}.", hint=hint, field=self._field)

    def too_long(self, limit: float, unit: str) -> InvalidRequestError:
        return self(f"is over {limit:.15g} {unit}", "Send it in parts.")


class _Budget:
    def __init__(self, limits: AudioLimits, fault: _Fault) -> None:
        self.seconds = 0.0
        self._samples = 0
        self._limits = limits
        self._fault = fault

    def spend_packet(self) -> None:
        self._spend(PACKET_SAMPLES)

    def spend_frame(self, frame: av.AudioFrame) -> None:
        """Count a frame, before it becomes more than it is."""
        channels = frame.layout.nb_channels
        if frame.sample_rate not in RATES or not 1 <= channels <= MAX_CHANNELS:
            raise self._fault(f"has {channels} channels at {frame.sample_rate} Hz")
        self._spend(frame.samples * channels)
        self.seconds += frame.samples / frame.sample_rate
        if self.seconds > self._limits.max_seconds + ROUNDING_S:
            raise self._fault.too_long(self._limits.max_seconds, "seconds")

    def _spend(self, samples: int) -> None:
        self._samples += samples
        if self._samples > self._limits.max_samples:
            raise self._fault.too_long(self._limits.max_samples, "samples")


class _Mixer:
    """Frames of any kind, which may change on the way, to mono at one rate."""

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._kind: tuple[int, str, str] | None = None
        self._graph: FilterGraph | None = None

    def write(self, frame: av.AudioFrame) -> NDArray[np.float32]:
        kind = (frame.sample_rate, frame.format.name, frame.layout.name)
        if kind == self._kind and self._graph:
            return self._graph.push(frame)
        rest = self.finish()
        self._kind = kind
        self._graph = FilterGraph(
            sample_rate=frame.sample_rate,
            sample_format=frame.format.name,
            layout=frame.layout.name,
            filters=self._filters(frame.layout.nb_channels),
        )
        return np.concatenate((rest, self._graph.push(frame)))

    def finish(self) -> NDArray[np.float32]:
        return self._graph.push(None) if self._graph else np.empty(0, np.float32)

    def _filters(self, channels: int) -> list[tuple[str, str]]:
        # By number, since not every layout has names, and before the rate changes, since
        # one channel is less work than many.
        mean = "+".join(f"{1 / channels:.9f}*c{channel}" for channel in range(channels))
        return [
            ("aformat", "sample_fmts=fltp"),
            ("pan", f"mono|c0={mean}"),
            resampling(self._sample_rate),
        ]


@contextmanager
def _opened(recording: Recording, fault: _Fault) -> Generator[InputContainer]:
    try:
        container = open_container(recording)
    except (FFmpegError, ValueError):
        if not recording.size:
            raise fault("is empty") from None
        raise fault(
            "cannot be read: it is cut off, or in none of the formats that are known",
            "Known are wav, mp3, m4a, mp4, ogg, opus, flac, aac, webm and others.",
        ) from None
    with container:
        yield container


def _frames(container: InputContainer, budget: _Budget, fault: _Fault) -> Iterator[av.AudioFrame]:
    if not container.streams.audio:
        raise fault("has no audio track")
    try:
        for packet in container.demux(container.streams.audio[0]):
            budget.spend_packet()
            for frame in packet.decode():
                if frame.samples:
                    budget.spend_frame(frame)
                    yield frame
    except (FFmpegError, IndexError) as error:
        # PyAV knows no track that only appears on the way.
        raise fault(f"is damaged or cut off: {error}") from None


def _some(samples: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    if len(samples):
        yield np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
