"""Checks of a model's plugin as the host meets it, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import msgpack
import pytest
from pydantic import TypeAdapter, ValidationError

from omni_host.errors import OmniError
from omni_host.graph import StageGraph
from omni_host.graph_checks import validate
from omni_host.offers import API_VERSION, ModelRef, PluginInfo
from omni_host.plugins.import_guard import FORBIDDEN
from omni_host.plugins.model_sources import config_names, is_folder, is_hub_name
from omni_host.runtime.plain import from_plain, to_plain
from omni_host.serve.speech_request import SpeechForm
from omni_host.testing.model_under_test import ModelUnderTest

__all__ = ["PluginChecks"]

MODELS = "omni_host.models"
MOST_IMPORTS = 150
"""Modules that a plugin's own may bring: a few files of its own and of the standard library."""

BARRED = FORBIDDEN | {
    "av",
    "huggingface_hub",
    "jax",
    "librosa",
    "mlx",
    "numba",
    "numpy",
    "onnxruntime",
    "pandas",
    "safetensors",
    "scipy",
    "sklearn",
    "soundfile",
    "tensorflow",
    "tokenizers",
    "torchaudio",
    "vllm",
}
"""Packages that belong into stages: they cost each start of the host what nobody there needs."""


class PluginChecks:
    """Part of `ModelPluginContract`."""

    def test_the_host_finds_no_fault_with_it(self, subject: ModelUnderTest) -> None:
        """It loads, and its distribution's entry points name what there is."""
        distribution = subject.resolved.distribution
        faults = [
            str(fault)
            for fault in subject.plugins.report.faults
            if fault.distribution == distribution and fault.kind != "hook-failed"
        ]
        assert not faults

    def test_it_says_what_it_is(self, loaded: ModelUnderTest) -> None:
        """`PLUGIN` has a summary of one line, for the present version of the API or the last."""
        info: PluginInfo = vars(import_module(loaded.plugin.module))["PLUGIN"]
        assert 0 < info.api_version <= API_VERSION
        assert info.summary.strip(), "PLUGIN.summary is empty: omni list-plugins shows it"
        assert len(info.summary.splitlines()) == 1, "PLUGIN.summary must be one line"

    def test_importing_it_is_light(self, loaded: ModelUnderTest) -> None:
        """Every `omni` command that loads plugins imports all of them."""
        imported = loaded.probe.imported
        barred = _barred(imported)
        assert not barred, f"{loaded.plugin.module} imports {barred}; import them in its stages"
        assert len(imported) <= MOST_IMPORTS, f"it brings {len(imported)} modules with it"

    def test_its_hooks_import_nothing_heavy(self, loaded: ModelUnderTest) -> None:
        """Hooks run in the host: what computes belongs into stages."""
        barred = sorted(
            set(_barred(loaded.probe.imported_later)) - set(_barred(loaded.probe.imported))
        )
        assert not barred, f"its hooks import {barred}; import them in its stages"

    def test_its_claims_lead_to_it(self, loaded: ModelUnderTest) -> None:
        """The model's `config.json` is claimed statically, and so is that of every alias."""
        claims = {
            claim.name
            for claim in loaded.plugins.report.claims
            if claim.group == MODELS and claim.plugin == loaded.plugin.name
        }
        named = config_names(loaded.resolved.model.config)
        assert claims & set(named), (
            f"none of {list(named)}, as its config.json says, is claimed in [{MODELS}]; "
            f"claimed: {sorted(claims)}"
        )
        for alias, place in _aliases(loaded, claims):
            assert is_folder(place) or is_hub_name(place), f"{alias} leads to {place!r}"
            if is_folder(place):
                found = loaded.plugins.resolve_model(alias, weights=False)
                assert found.owner == loaded.plugin.name, f"{alias} leads to {found.owner}"

    def test_its_hooks_answer_as_they_should(self, loaded: ModelUnderTest) -> None:
        """What they return is of the types that `omni_host.hookspecs` names."""
        for stage in loaded.graph.stages:
            loaded.plugins.server_args(loaded.plugin.name, stage, loaded.platform, {})
        loaded.plugins.readiness_checks()
        faults = [
            str(fault)
            for fault in loaded.plugins.report.faults
            if fault.plugin == loaded.plugin.name and fault.kind == "hook-failed"
        ]
        assert not faults

    def test_its_graph_is_valid(self, loaded: ModelUnderTest) -> None:
        """It can run, and its `speech` task does not redefine fields of the API."""
        validate(loaded.graph, loaded.plugins.transports())
        tasks = {task.name: task for task in loaded.graph.tasks}
        assert "speech" in tasks, f"it has no task `speech`, only {sorted(tasks)}"
        SpeechForm("model", tasks["speech"])

    def test_its_graph_depends_on_the_arguments_alone(self, loaded: ModelUnderTest) -> None:
        """The same arguments give the same graph, again and in another process."""
        first, second = loaded.probe, loaded.second_probe
        assert first.repeated, "the second call of build_stages gave another graph"
        assert first.graph == second.graph, "another process built another graph"

    def test_its_graph_is_plain_data(self, loaded: ModelUnderTest) -> None:
        """It goes to other processes: every field is of its declared type and comes back equal."""
        graph = loaded.graph
        data = to_plain(graph)
        back = from_plain(StageGraph, msgpack.unpackb(msgpack.packb(data)))
        assert back == graph, "it does not come back equal; use tuples, frozensets, plain values"
        try:
            read = TypeAdapter(StageGraph).validate_python(data)
        except ValidationError as error:
            pytest.fail(f"a field is not of its type: {error}")
        assert read == graph, "a field is not of its declared type"

    def test_building_its_graph_touches_nothing(self, loaded: ModelUnderTest) -> None:
        """No weights opened, no file written, no socket, process or thread, no environment."""
        assert not loaded.probe.touched


def _barred(modules: Iterable[str]) -> list[str]:
    return sorted(BARRED & {name.partition(".")[0] for name in modules})


def _aliases(subject: ModelUnderTest, names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Those of the claimed names that stand for a model, each with where it is."""
    hook: Any = getattr(import_module(subject.plugin.module), "claim_model", None)
    for name in sorted(names) if hook else ():
        try:
            claim = hook(model=ModelRef(reference=name))
        except OmniError as error:
            pytest.fail(f"claim_model refuses the claimed name {name!r}: {error}")
        if claim is not None and claim.path is not None:
            yield name, claim.path
