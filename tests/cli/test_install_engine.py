"""What is installed for which machine, and what is left alone."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from omni_host.cli import install_engine as module
from omni_host.cli.install_engine import FLAVOURS, commands, install_engine
from omni_host.errors import OmniError


@pytest.fixture
def torch_present(monkeypatch):
    def present(version):
        monkeypatch.setattr(module, "_installed", lambda name: version)

    return present


@pytest.fixture
def ran(monkeypatch):
    """The commands that were run, each ending with the exit code in `ran.code`."""

    class Ran(list):
        code = 0

    calls = Ran()

    def run(command, *, check):
        calls.append(command)
        return subprocess.CompletedProcess(command, calls.code)

    monkeypatch.setattr(module.subprocess, "run", run)
    return calls


@pytest.mark.parametrize(
    ("flavour", "version"), [("cpu", "2.13.0+cpu"), ("cpu", "2.11.0"), ("nvidia", "2.11.0+cu130")]
)
def test_a_torch_that_fits_is_left_alone(torch_present, flavour, version):
    torch_present(version)
    first, *others = commands(FLAVOURS[flavour])
    assert f"torch=={version}" in first
    assert "transformers==5.12.1" in first
    assert not any("torch" in word for command in others[:1] for word in command)


@pytest.mark.parametrize("version", [None, "2.9.1", "2.13.0+cpu"])
def test_one_that_does_not_fit_an_nvidia_machine_is_replaced_first(torch_present, version):
    torch_present(version)
    assert commands(FLAVOURS["nvidia"])[0][-1] == "torch==2.11.0"


def test_the_index_of_torch_can_be_another(torch_present):
    torch_present(None)
    first = commands(FLAVOURS["cpu"], "https://wheels.example/cpu")[0]
    assert first[-3:] == ["--extra-index-url", "https://wheels.example/cpu", "torch==2.13.0"]


def test_sglang_goes_in_without_the_dependencies_that_its_wheel_names(torch_present):
    torch_present("2.13.0")
    *_, sglang, check = commands(FLAVOURS["cpu"])
    assert sglang[-2:] == ["--no-deps", "sglang==0.5.17"]
    assert check[:2] == [sys.executable, "-c"]


def test_a_dry_run_prints_the_commands_and_runs_none(torch_present, ran):
    torch_present(None)
    done = CliRunner().invoke(install_engine, ["sglang", "--for", "nvidia", "--dry-run"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == len(commands(FLAVOURS["nvidia"]))
    assert "sglang-kernel==0.4.5" in done.stdout
    assert not ran


def test_the_commands_run_in_order_and_are_printed(torch_present, ran):
    torch_present("2.13.0")
    done = CliRunner().invoke(install_engine, ["sglang", "--for", "cpu"])
    assert done.exit_code == 0
    assert ran == commands(FLAVOURS["cpu"])
    assert "--no-deps sglang==0.5.17" in done.stdout
    assert "imports on cpu" in done.stderr


def test_a_command_that_fails_ends_it_and_is_named(torch_present, ran):
    torch_present("2.13.0")
    ran.code = 7
    done = CliRunner().invoke(install_engine, ["sglang", "--for", "cpu"])
    assert isinstance(done.exception, OmniError)
    assert "exit code 7" in str(done.exception)
    assert len(ran) == 1


def test_an_environment_without_pip_uses_uv(torch_present, monkeypatch):
    torch_present("2.13.0")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/bin/{name}")
    assert commands(FLAVOURS["cpu"])[0][:5] == [
        "/bin/uv", "pip", "install", "--python", sys.executable,
    ]  # fmt: skip


def test_without_either_the_way_out_is_named(torch_present, monkeypatch):
    torch_present("2.13.0")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(OmniError) as caught:
        commands(FLAVOURS["cpu"])
    assert "ensurepip" in caught.value.hint
