"""The contract of a plugin that brings a model which speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from omni_host.errors import UsageError
from omni_host.testing.model_under_test import ModelUnderTest
from omni_host.testing.plugin_checks import PluginChecks
from omni_host.testing.process_checks import ProcessChecks
from omni_host.testing.served_model import Audio, ServedModel
from omni_host.testing.speech_checks import SpeechChecks

__all__ = ["ModelPluginContract"]


# Inherited tests are collected from the last base to the first.
class ModelPluginContract(ProcessChecks, SpeechChecks, PluginChecks):
    """Everything that the host relies on in a plugin with a `speech` task, as tests.

        class TestContract(ModelPluginContract):
            model = "demo"

    Attributes:
        model: the reference to serve: an alias, a folder or a hub name.
        requests: sample requests, mappings of `text` and, if wanted, fields as in the API.
            The same request has to give the same audio; where the model has a field
            `seed` and a request names none, the contract does.
        long_text: what is cancelled midway; None repeats the first request's text. It has
            to give more than three chunks of audio.
        options: the `[model]` table, for `build_stages`.
        settings: written as for `--set`, such as `platform.name=cpu`.
        tolerance: how far samples of one request may be apart when it runs beside others,
            in another placement or process; 0 for equal to the last bit. Batched arithmetic
            on some devices needs more.
        patience_s: how long to wait for an answer before a test fails. No test passes or
            fails by being fast or slow within it.
    """

    model: ClassVar[str]
    requests: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"text": "Good morning."},
        {"text": "One thing at a time, and that done well."},
    )
    long_text: ClassVar[str | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    settings: ClassVar[Sequence[str]] = ()
    tolerance: ClassVar[float] = 0.0
    patience_s: ClassVar[float] = 60.0

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> Iterator[ModelUnderTest]:
        """The model of this class; what its tests ask for is made once."""
        if not hasattr(cls, "model"):
            raise UsageError(f"{cls.__name__} names no model.", hint='model = "my-alias"')
        subject = ModelUnderTest(
            reference=cls.model,
            requests=cls.requests,
            long_text=cls.long_text,
            options=cls.options,
            settings=cls.settings,
            tolerance=cls.tolerance,
            patience_s=cls.patience_s,
        )
        yield subject
        subject.stop()

    @pytest.fixture
    def loaded(self, subject: ModelUnderTest) -> ModelUnderTest:
        """The model, once it is known whose it is."""
        _ = subject.resolved
        return subject

    @pytest.fixture
    def served(self, subject: ModelUnderTest) -> ServedModel:
        """The model, running and idle, placed as its graph says."""
        return subject.served()

    @pytest.fixture
    def alone(self, subject: ModelUnderTest) -> Sequence[Audio]:
        """The audio of the sample requests, each served by itself."""
        return subject.alone
