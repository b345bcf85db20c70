"""What the host is told about the demo voice."""

import json
import subprocess
import sys
from importlib import metadata

import pytest
from omni_demo import plugin, weights

from omni_host.api import ModelRef, PlatformProbe, errors
from omni_host.graph_checks import validate

CPU = PlatformProbe(name="cpu", devices=("cpu",), priority=0)


def graph(**options):
    return plugin.build_stages(ModelRef(reference="demo"), options, CPU)


@pytest.mark.parametrize("alias", ["demo", "default"])
def test_its_aliases_lead_to_a_folder_whose_config_it_claims(alias):
    claim = plugin.claim_model(ModelRef(reference=alias))
    config = json.loads((plugin.MODEL_FOLDER / "config.json").read_text())
    points = metadata.distribution("omni-demo").entry_points
    claimed = {point.name for point in points.select(group="omni_host.models")}
    assert claim.path == str(plugin.MODEL_FOLDER)
    assert {alias, config["model_type"], *config["architectures"]} <= claimed


def test_it_claims_nothing_else():
    assert plugin.claim_model(ModelRef(reference="someone/else")) is None


def test_the_graph_is_valid_and_always_the_same():
    validate(graph(), ["inline", "shm"])
    assert graph() == graph()


def test_every_stage_has_a_process_of_its_own_and_streams_to_the_next():
    assert all(stage.process is None and stage.device == "cpu" for stage in graph().stages)
    assert [(edge.source, edge.target, edge.kind) for edge in graph().edges] == [
        ("text", "acoustic", "stream"),
        ("acoustic", "vocoder", "stream"),
    ]


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(errors.ConfigError, match="'loudness'") as caught:
        graph(loudness=3)
    assert caught.value.field == "loudness"


def test_the_host_process_imports_neither_the_voice_nor_a_runtime_for_it():
    code = (
        "import sys\n"
        "from omni_demo import plugin\n"
        "from omni_host.api import ModelRef, PlatformProbe\n"
        "cpu = PlatformProbe(name='cpu', devices=('cpu',), priority=0)\n"
        "plugin.claim_model(ModelRef(reference='demo'))\n"
        "plugin.build_stages(ModelRef(reference='demo'), {}, cpu)\n"
        "assert all(check.ok for check in plugin.readiness_checks())\n"
        "print({'hibari', 'onnxruntime', 'numpy', 'torch'} & sys.modules.keys())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_check_says_how_to_repair_the_voice(monkeypatch, tmp_path):
    monkeypatch.setattr(weights, "assets", lambda: tmp_path)
    (check,) = plugin.readiness_checks()
    assert not check.ok
    assert check.hint == "pip install --force-reinstall hibari-tts==0.2.1"
