"""The voice's files are checked before they are used."""

import shutil
from importlib import metadata

import pytest
from omni_demo import weights
from omni_demo.acoustic import AcousticStage
from omni_demo.text import TextStage
from omni_demo.vocoder import VocoderStage

from omni_host.api import errors

REINSTALL = "pip install --force-reinstall hibari-tts==0.2.1"
STAGES = [TextStage, AcousticStage, VocoderStage]


@pytest.fixture
def copied_assets(monkeypatch, tmp_path):
    for name in weights.ALL_FILES:
        shutil.copy(weights.assets() / name, tmp_path / name)
    monkeypatch.setattr(weights, "assets", lambda: tmp_path)
    return tmp_path


def test_the_installed_files_are_the_published_ones():
    weights.check(weights.ALL_FILES, stage="any")


@pytest.mark.parametrize(
    ("stage", "file"),
    [(AcousticStage, "hibari.onnx"), (TextStage, "oov.onnx"), (TextStage, "vocab.json")],
)
def test_a_stage_refuses_a_file_with_one_changed_byte(stage, file, copied_assets, context):
    content = bytearray((copied_assets / file).read_bytes())
    content[len(content) // 2] ^= 1
    (copied_assets / file).write_bytes(content)
    with pytest.raises(errors.StageStartError, match=f"{file} is damaged") as caught:
        stage(context("its-name"))
    assert (caught.value.hint, caught.value.field) == (REINSTALL, "its-name")


def test_a_stage_refuses_a_missing_file(copied_assets, context):
    (copied_assets / "hibari.onnx").unlink()
    with pytest.raises(errors.StageStartError, match=r"hibari\.onnx cannot be read") as caught:
        AcousticStage(context("acoustic"))
    assert caught.value.hint == REINSTALL


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_refuses_another_version_of_the_package(stage, monkeypatch, context):
    monkeypatch.setattr(weights.metadata, "version", lambda name: "0.3.0")
    with pytest.raises(errors.StageStartError, match=r"0\.2\.1; 0\.3\.0 is installed") as caught:
        stage(context("its-name"))
    assert caught.value.hint == "pip install hibari-tts==0.2.1"


def test_a_missing_package_is_named(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(weights.metadata, "version", absent)
    with pytest.raises(errors.StageStartError, match="it is not installed"):
        weights.check_version(stage="text")
