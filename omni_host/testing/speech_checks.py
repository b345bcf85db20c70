"""Checks of a model that speaks: what it says, how it streams, what it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from omni_host.errors import InvalidRequestError, OmniError
from omni_host.testing.bad_requests import BadRequest, bad_requests
from omni_host.testing.model_under_test import ModelUnderTest
from omni_host.testing.served_model import Audio, ServedModel, differing, joined

__all__ = ["SpeechChecks"]

SILENCE = 1e-3
"""The root mean square, of a full scale of 1, below which audio counts as silent."""
CHARACTERS_PER_S = (2.0, 50.0)
"""How fast anybody speaks: audio outside of it was declared at another rate than it has."""
AT_ONCE = 4
PAUSE_S = 0.2
PAUSES = 4


class SpeechChecks:
    """Part of `ModelPluginContract`."""

    def test_a_request_gives_audio(self, subject: ModelUnderTest, served: ServedModel) -> None:
        """Mono float32 within -1..1, neither silent nor of an impossible length."""
        for index in range(len(subject.requests)):
            request = subject.request(index, served)
            with served.stream(**request) as stream:
                chunks = [_checked(chunk) for chunk in stream]
            samples = joined(chunks)
            assert samples.size, f"no audio for {request}"
            assert _loudness(samples) > SILENCE, f"silence for {request}"
            pace = len(request["text"]) / (samples.size / served.sample_rate)
            assert CHARACTERS_PER_S[0] <= pace <= CHARACTERS_PER_S[1], (
                f"{samples.size} samples at the declared {served.sample_rate} Hz are "
                f"{pace:.3g} characters a second for {request}"
            )

    def test_streamed_audio_is_the_whole(
        self, subject: ModelUnderTest, alone: Sequence[Audio], served: ServedModel
    ) -> None:
        """A client that reads slowly gets, sample for sample, what a fast one gets."""
        for index, whole in enumerate(alone):
            with served.stream(**subject.request(index, served)) as stream:
                streamed = joined(list(_slowly(stream)))
            difference = differing(streamed, whole)
            assert not difference, f"request {index} read slowly: {difference}"

    def test_requests_at_once_sound_as_alone(
        self, subject: ModelUnderTest, alone: Sequence[Audio], served: ServedModel
    ) -> None:
        """Requests that run together do not change each other."""
        indices = list(range(len(alone))) * max(2, AT_ONCE // len(alone))
        together = served.speak_at_once([subject.request(index, served) for index in indices])
        for index, spoken in zip(indices, together, strict=True):
            difference = differing(spoken, alone[index], subject.tolerance)
            assert not difference, f"request {index} beside others: {difference}"

    def test_a_bad_request_is_refused_by_the_field_at_fault(
        self, subject: ModelUnderTest, alone: Sequence[Audio], served: ServedModel
    ) -> None:
        """The stages raise InvalidRequestError that names the field, and go on serving.

        The payloads skip the checks of the API: others than its clients reach stages too.
        """
        processes = served.processes()
        good = served.payload(**subject.request(0, served))
        wrong = [_answer(served, bad) for bad in bad_requests(served.task, good)]
        complaints = [complaint for complaint in wrong if complaint]
        assert not complaints, "\n".join(complaints)
        assert served.processes() == processes, "a bad request ended a process"
        spoken = served.speak(**subject.request(0, served))
        difference = differing(spoken, alone[0], subject.tolerance)
        assert not difference, f"after bad requests: {difference}"


def _checked(chunk: object) -> Audio:
    assert isinstance(chunk, np.ndarray), f"a chunk is a {type(chunk).__name__}, no array"
    samples = cast("Audio", chunk)
    assert samples.dtype == np.float32, f"a chunk is {samples.dtype}, not float32"
    assert samples.ndim == 1, f"a chunk has the shape {samples.shape}, not [samples]"
    assert np.isfinite(samples).all(), "a chunk has samples that are not finite"
    peak = float(np.max(np.abs(samples), initial=0.0))
    assert peak <= 1.0, f"a chunk has samples up to {peak:.4g}, beyond -1..1"
    return samples


def _loudness(samples: Audio) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def _slowly(stream: Iterator[Any]) -> Iterator[Any]:
    for index, chunk in enumerate(stream):
        if index < PAUSES:
            time.sleep(PAUSE_S)
        yield chunk


def _answer(served: ServedModel, bad: BadRequest) -> str:
    """What is wrong with the answer to a bad request; nothing if it is refused as it should."""
    try:
        with served.submit(bad.payload) as stream:
            size = joined(list(stream)).size
    except InvalidRequestError as error:
        if error.field in bad.fields:
            return ""
        return f"{bad}: the refusal names the field {error.field!r}: {error}"
    except OmniError as error:
        return f"{bad}: {type(error).__name__}, not InvalidRequestError: {error}"
    return f"{bad}: not refused, {size} samples"
