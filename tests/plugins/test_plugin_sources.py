"""What whoever works on a plugin is told: the line to fix, and what was meant."""

from __future__ import annotations

import pytest

from omni_host.errors import HookError, PluginLoadError
from omni_host.offers import ModelRef, PlatformProbe

CPU = PlatformProbe(name="cpu", devices=("cpu",), priority=0)
MODEL = ModelRef(reference="m")


def file_of(site, name="omni_bad"):
    return site.folders[-1] / f"{name}.py"


def line_of(file, text):
    lines = file.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.parametrize(
    "body",
    [
        "def broken(:",
        "raise ValueError('boom')",
        "from os import nothing",
        "import torch",
        "exit(3)",
    ],
)
def test_a_plugin_in_the_works_is_fixed_at_its_line(site, body):
    site.distribution("torch", modules={"torch": ""})
    site.plugin("bad", body, developed=True)
    (fault,) = site.load().report.faults
    place = f"{file_of(site)}:{line_of(file_of(site), body)}"
    assert fault.fix == f"edit {place}, or leave it out: --plugins-block bad"


def test_where_no_line_is_known_the_file_is_named(site):
    site.plugin("bad", "@hookimpl\ndef biuld_stages(model): ...", developed=True)
    (fault,) = site.load().report.faults
    assert fault.fix == f"edit {file_of(site)}, or leave it out: --plugins-block bad"


@pytest.mark.parametrize(
    ("developed", "fix"),
    [(True, "pip install no_such"), (False, "pip install --force-reinstall omni-bad")],
)
def test_a_module_that_is_missing_is_installed_by_whoever_needs_it(site, developed, fix):
    site.plugin("bad", "import no_such.part", developed=developed)
    (fault,) = site.load().report.faults
    assert fault.fix == fix


def test_a_module_of_its_own_that_is_missing_is_no_package_to_install(site):
    site.plugin("bad", "from omni_bad.parts import x", developed=True)
    (fault,) = site.load().report.faults
    assert fault.fix.startswith(f"edit {file_of(site)}:")


def built(site, body):
    site.plugin("bad", body, claims={"models": ("Bad",)}, developed=True)
    with pytest.raises(HookError) as caught:
        site.load().build_stages("bad", MODEL, {}, CPU)
    return caught.value


def test_an_exception_in_a_hook_names_the_innermost_line_of_the_plugin(site):
    error = built(
        site,
        """
        import json

        def read(text):
            return json.loads(text)  # here

        @hookimpl
        def build_stages(model):
            return read("x")
        """,
    )
    line = line_of(file_of(site), "# here")
    assert error.message.endswith(f"char 0) (omni_bad.py:{line}).")
    assert error.hint.startswith(f"edit {file_of(site)}:{line}")


def test_a_misspelt_argument_is_told_what_was_meant(site):
    error = built(
        site, "@hookimpl\ndef build_stages(model): StageSpec(name='a', targt='a:B')  # here"
    )
    line = line_of(file_of(site), "# here")
    assert f"argument 'targt'. Did you mean 'target'? (omni_bad.py:{line})." in error.message


def test_no_sentence_ends_twice(site):
    body = "@hookimpl\ndef biuld_stages(model): ..."
    site.plugin("bad", body, claims={"models": ("bad",)})
    site.plugin("odd", "@hookimpl\ndef stage_engines(): raise ValueError('what?')")
    plugins = site.load()
    causes = [fault.cause for fault in plugins.report.faults]
    assert causes[0].endswith("Did you mean 'build_stages'?")
    assert not causes[1].endswith(".")
    with pytest.raises(PluginLoadError, match="Did you mean") as caught:
        plugins.resolve_model("bad")
    assert caught.value.message.endswith("'build_stages'?")
