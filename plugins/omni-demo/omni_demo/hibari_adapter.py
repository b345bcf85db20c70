"""All contact with hibari-tts: its one-piece synthesis, taken apart into three.

`Hibari.stream(text)` does per sentence what `Phonemizer.read`, `AcousticModel.frames` and
`synthesize` do here, with one noise generator for the whole text. Some of what is called
is no public API, which is why `omni_demo.weights` admits one version alone; this module
is imported after that check.
"""

from __future__ import annotations

import json
import textwrap
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from hibari import Hibari, dsp
from hibari.g2p import G2P
from hibari.g2p.oov import OOV
from hibari.tts import _CLAUSE, MAX_PHONEMES

from omni_demo import weights
from omni_demo.reading_limits import spell_out, split_runs, turns

__all__ = ["AcousticModel", "Frames", "Phonemizer", "synthesize"]

Frames = Mapping[str, npt.NDArray[np.float32]]
"""What the acoustic model says of F frames of 12.5 ms, by the names in `FRAME_PARTS`:
`f0` [F] in Hz, 0 where unvoiced, the others [601, F]; all float32."""

FRAME_PARTS = ("lh", "theta", "ln", "lr", "phi", "f0")


class Phonemizer:
    """English text to phoneme strings in the alphabet of the acoustic model."""

    def __init__(self, *, stage: str) -> None:
        self._ids: Mapping[str, int] = json.loads(weights.read("vocab.json", stage=stage))
        self._sounds = {c for c in self._ids if unicodedata.category(c) in ("Ll", "Lu", "Lo")}
        oov = OOV(session=_session(weights.read("oov.onnx", stage=stage), threads=1))
        self._g2p = G2P(oov=oov)

    def sentences(self, text: str) -> list[str]:
        """The sentences as hibari splits them, endless ones in parts."""
        return [part for sentence in Hibari.split_sentences(text) for part in turns(sentence)]

    def read(self, sentence: str) -> list[str]:
        """What the acoustic model is given at once, each at most `MAX_PHONEMES` long."""
        phonemes = self._phonemes(sentence)
        if len(phonemes) <= MAX_PHONEMES:
            return [phonemes] if phonemes else []
        return [part for clause in _clauses(phonemes) for part in _fit(clause)]

    def ids(self, phonemes: str) -> npt.NDArray[np.int64]:
        """Phoneme ids [L] between two zeros; characters outside the alphabet are left out."""
        inner = [self._ids[c] for c in phonemes if c in self._ids]
        return np.asarray([0, *inner, 0], np.int64)

    def sounds(self, phonemes: str) -> bool:
        """Whether there is anything to hear: a phoneme, not punctuation and stress alone."""
        return not self._sounds.isdisjoint(phonemes)

    def _phonemes(self, sentence: str) -> str:
        try:
            return self._g2p(split_runs(sentence))
        except (IndexError, ValueError):
            # hibari cannot count past 36 digits and trips over a word that begins with
            # a superscript.
            return self._g2p(split_runs(spell_out(sentence)))


class AcousticModel:
    """Phoneme ids to spectral frames: the ONNX session of the bundled voice."""

    def __init__(self, *, stage: str, threads: int) -> None:
        self._session = _session(weights.read("hibari.onnx", stage=stage), threads=threads)

    def frames(self, ids: npt.NDArray[np.int64], speed: float) -> Frames:
        """The frames of one sentence; `speed` divides its durations."""
        feed = {"ids": ids[None], "speed": np.asarray([speed], np.float32)}
        parts = self._session.run(list(FRAME_PARTS), feed)
        return {name: part[0] for name, part in zip(FRAME_PARTS, parts, strict=True)}


def synthesize(frames: Frames, noise: np.random.Generator) -> npt.NDArray[np.float32]:
    """Samples [300 F] at 24 kHz, float32; draws 2 * 601 * F normals from `noise`."""
    lh, theta, ln, lr, phi, f0 = (frames[name] for name in FRAME_PARTS)
    return dsp.synth(lh, theta, ln, lr, phi, f0, noise)


def _session(model: bytes, *, threads: int) -> Any:
    import onnxruntime  # noqa: PLC0415 - the vocoder's process does without

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _clauses(phonemes: str) -> list[str]:
    """As `Hibari.phonemize` splits a long sentence: clauses, gathered up to `MAX_PHONEMES`."""
    gathered = [""]
    for clause in _CLAUSE.split(phonemes):
        last = gathered[-1]
        if last and len(last) + len(clause) + 1 > MAX_PHONEMES:
            gathered.append(clause)
        else:
            gathered[-1] = f"{last} {clause}" if last else clause
    return [clause for clause in gathered if clause]


def _fit(clause: str) -> list[str]:
    """A clause as it is, or, over `MAX_PHONEMES`, in parts: between words where possible."""
    if len(clause) <= MAX_PHONEMES:
        return [clause]
    return textwrap.wrap(clause, MAX_PHONEMES, break_on_hyphens=False)
