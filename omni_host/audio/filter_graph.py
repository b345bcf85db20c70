"""A chain of FFmpeg's audio filters that is fed and emptied piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import av
import numpy as np
from av.filter import Graph
from numpy.typing import NDArray

__all__ = ["FilterGraph", "MonoFilter"]


class FilterGraph:
    """Frames of one kind in, float32 mono samples out.

    Args:
        sample_rate, sample_format, layout: of the frames that will be pushed.
        filters: FFmpeg's names and arguments, such as ("atempo", "2"). The last ones have
            to leave one channel.
    """

    def __init__(
        self,
        *,
        sample_rate: int,
        sample_format: str,
        layout: str,
        filters: Sequence[tuple[str, str]],
    ) -> None:
        self._graph = Graph()
        # More threads than one would cost more than they give on so little data.
        self._graph.threads = 1
        source = self._graph.add(
            "abuffer",
            sample_rate=str(sample_rate),
            sample_fmt=sample_format,
            channel_layout=layout,
            time_base=f"1/{sample_rate}",
        )
        chain = [self._graph.add(name, arguments) for name, arguments in filters]
        form = self._graph.add("aformat", sample_fmts="flt")
        self._graph.link_nodes(source, *chain, form, self._graph.add("abuffersink")).configure()

    def push(self, frame: av.AudioFrame | None) -> NDArray[np.float32]:
        """Push a frame, or None at the end; what has come out of it, float32 [n]."""
        self._graph.push(frame)
        out: list[NDArray[np.float32]] = []
        while True:
            try:
                pulled = self._graph.pull()
            except (BlockingIOError, EOFError):
                break
            assert isinstance(pulled, av.AudioFrame)
            out.append(cast("NDArray[Any]", pulled.to_ndarray())[0])
        return np.concatenate(out) if out else np.empty(0, np.float32)


class MonoFilter:
    """A graph that takes float32 mono samples too."""

    def __init__(self, sample_rate: int, filters: Sequence[tuple[str, str]]) -> None:
        self._sample_rate = sample_rate
        self._pushed = 0
        self._graph = FilterGraph(
            sample_rate=sample_rate, sample_format="flt", layout="mono", filters=filters
        )

    def write(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 samples [n] in; what has come out, float32 [m]."""
        if not len(samples):
            return samples
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], "flt", "mono")
        frame.sample_rate = self._sample_rate
        frame.time_base = Fraction(1, self._sample_rate)
        frame.pts = self._pushed
        self._pushed += len(samples)
        return self._graph.push(frame)

    def finish(self) -> NDArray[np.float32]:
        """The rest."""
        return self._graph.push(None)
