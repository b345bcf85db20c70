"""A site where everything that can be wrong is wrong, and one plugin is good."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import wave
from collections.abc import Mapping

import pytest

BROKEN: Mapping[str, tuple[str, str, str]] = {
    # kind of fault: body of the plugin, its cause, its fix
    "import-failed": (
        "import no_such_package",
        "No module named 'no_such_package'",
        "pip install --force-reinstall omni-import-failed",
    ),
    "exits-at-import": (
        "raise SystemExit('bye')",
        "it ends the process at import: 'bye'",
        "--plugins-block exits-at-import",
    ),
    "forbidden-import": (
        "import torch",
        "imports torch in the host process",
        "pip install --upgrade omni-forbidden-import",
    ),
    "no-plugin-info": ("del PLUGIN", "has no PLUGIN", "--plugins-block no-plugin-info"),
    "name-mismatch": (
        "PLUGIN = PluginInfo(name='other', summary='')",
        "PLUGIN.name is 'other'",
        "pip install --upgrade omni-name-mismatch",
    ),
    "api-version": (
        "PLUGIN = PluginInfo(name='api-version', summary='', api_version=99)",
        "written for plugin API 99; this host supports 1",
        "pip install --upgrade omni-host",
    ),
    "unknown-hook": (
        "@hookimpl\ndef biuld_stages(model): ...",
        "Did you mean 'build_stages'?",
        "pip install --upgrade omni-unknown-hook",
    ),
    "unmarked-hook": (
        "def stage_engines(): ...",
        "'stage_engines' is not marked with @hookimpl",
        "pip install --upgrade omni-unmarked-hook",
    ),
    "hook-arguments": (
        "@hookimpl\ndef claim_model(modul): ...",
        "claim_model is not given 'modul'",
        "pip install --upgrade omni-hook-arguments",
    ),
    "hook-failed": (
        "@hookimpl\ndef stage_transports(): raise ValueError('boom')",
        "stage_transports raised ValueError: boom",
        "--plugins-block hook-failed",
    ),
    "offer-without-claim": (
        "@hookimpl\ndef stage_engines(): yield EngineSpec(name='warp', target='w:W')",
        "offers 'warp', which [omni_host.engines] does not claim",
        "pip install --upgrade omni-offer-without-claim",
    ),
}
SYNTAX_ERROR = "def broken(:"
CONFIG = '{"architectures": ["GoodModel"]}'
VOICE = """
import numpy as np


class Voice:
    def __init__(self, context): ...

    async def process(self, job):
        for _ in (await job.payload())["text"].split():
            await job.emit(np.full(2400, 0.25, np.float32))
"""


@pytest.fixture
def broken_site(site):
    site.family("good", "GoodModel")
    site.distribution("torch", modules={"torch": ""})
    for kind, (body, _, _) in BROKEN.items():
        site.plugin(kind, body, version="3.1")
    site.plugin("syntax", SYNTAX_ERROR, version="3.1")
    site.plugin("claimless", claims={"launchers": ("rocket",)}, version="3.1")
    site.plugin("twin", distribution="omni-twin", version="3.1")
    site.plugin("twin", distribution="acme-twin", version="3.1")
    site.distribution("stray", version="3.1", entry_points="[omni_host.models]\nStray = stray\n")
    site.distribution("typo", version="3.1", entry_points="[omni_host.modles]\nTypo = typo\n")
    site.distribution("garbled", version="3.1", entry_points="[omni_host.models]\n???\n")
    text = "[omni_host.plugins]\nshadow = omni_good\n"
    site.distribution("omni-good", version="3.1", entry_points=text, kind="egg-info")
    return site


EXPECTED = {
    **{(kind, f"omni-{kind}", kind): said for kind, (_, *said) in BROKEN.items()},
    ("syntax", "omni-syntax", "import-failed"): ("SyntaxError", "--plugins-block syntax"),
    ("claimless", "omni-claimless", "claim-without-offer"): (
        "claims 'rocket', which stage_launchers does not offer",
        "pip install --upgrade omni-claimless",
    ),
    ("twin", "omni-twin", "duplicate-name"): ("acme-twin 3.1", "pip uninstall omni-twin"),
    ("twin", "acme-twin", "duplicate-name"): ("omni-twin 3.1", "pip uninstall acme-twin"),
    ("", "stray", "claim-without-plugin"): (
        "'Stray = stray' of [omni_host.models]",
        "pip install --upgrade stray",
    ),
    ("", "typo", "unknown-group"): (
        "line 1: there is no group 'omni_host.modles'. Did you mean 'omni_host.models'?",
        "pip install --force-reinstall typo",
    ),
    ("", "garbled", "malformed-entry-points"): (
        "line 2: '???' is not of the form 'name = module'",
        "pip install --force-reinstall garbled",
    ),
    ("", "omni-good", "shadowed-distribution"): ("left by a build, is shadowed by", "rm -r "),
}


def check_faults(faults: list[dict[str, str]]) -> None:
    found = {(f["plugin"], f["distribution"], f["kind"]): f for f in faults}
    assert found.keys() == EXPECTED.keys()
    assert len(faults) == len(EXPECTED)
    for key, (cause, fix) in EXPECTED.items():
        assert found[key]["version"] == "3.1"
        assert cause in found[key]["cause"]
        assert fix in found[key]["fix"]


def test_every_fault_is_named_with_distribution_version_cause_and_fix(broken_site):
    check_faults(broken_site.load().report.to_data()["faults"])


def test_the_good_plugin_is_loaded_resolved_and_built(broken_site):
    broken_site.host()
    plugins = broken_site.load()
    resolved = plugins.resolve_model(str(broken_site.model("m", CONFIG)))
    assert resolved.owner == "good"
    platform = plugins.platform()
    graph = plugins.build_stages(resolved.owner, resolved.model, {}, platform)
    (stage,) = graph.stages
    (argument,) = plugins.server_args("good", stage, platform, {}).items()
    assert argument[0] == "width"
    assert {"builtin", "good"} <= {plugin.name for plugin in plugins.lock().plugins}


def test_the_order_of_the_path_does_not_change_the_report(broken_site):
    expected = broken_site.load().report
    for seed in range(3):
        random.Random(seed).shuffle(broken_site.folders)
        assert broken_site.load().report == expected


class TestCommandLine:
    """The same site, seen by the command in a process of its own."""

    @pytest.fixture
    def omni(self, broken_site, tmp_path):
        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            code = "import sys; from omni_host.cli import main; sys.exit(main())"
            folders = [str(folder) for folder in broken_site.folders]
            kept = {k: v for k, v in os.environ.items() if not k.startswith("OMNI_")}
            return subprocess.run(
                [sys.executable, "-c", code, *arguments],
                env={**kept, "PYTHONPATH": os.pathsep.join(folders)},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )

        return run

    def test_json_holds_every_fault_and_nothing_else_is_printed(self, omni):
        done = omni("list-plugins", "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        report = json.loads(done.stdout)
        check_faults(report["faults"])
        states = {plugin["name"]: plugin["state"] for plugin in report["plugins"]}
        assert (states["good"], states["builtin"]) == ("loaded", "loaded")

    def test_the_table_shows_causes_and_fixes(self, omni):
        done = omni("list-plugins", "-v")
        assert done.returncode == 0, done.stderr
        for (_, distribution, kind), (cause, fix) in EXPECTED.items():
            assert f"{distribution} " in done.stdout
            assert f"[{kind}]" in done.stdout
            assert cause in done.stdout
            assert f"{fix}" in done.stdout
        assert f"{len(EXPECTED)} faults" in done.stdout
        assert "the good plugin" in done.stdout

    def test_check_fails_with_faults_and_passes_without_faulty_plugins(self, omni):
        assert omni("list-plugins", "--check").returncode == 3
        assert omni("list-plugins", "--check", "--no-load").returncode == 3

    def test_no_load_imports_no_plugin_and_reports_what_metadata_shows(self, omni):
        done = omni("list-plugins", "--no-load", "--json")
        report = json.loads(done.stdout)
        assert {plugin["state"] for plugin in report["plugins"]} == {"found"}
        assert {fault["kind"] for fault in report["faults"]} == {
            "claim-without-plugin",
            "duplicate-name",
            "malformed-entry-points",
            "shadowed-distribution",
            "unknown-group",
        }

    def test_no_load_imports_nothing_slow(self, omni, broken_site):
        slow = {"importlib.metadata", "importlib_metadata", "numpy", "pluggy", "pydantic"}
        code = (
            "import atexit, sys\n"
            f"atexit.register(lambda: print(sorted({slow} & set(sys.modules)), file=sys.stderr))\n"
        )
        (broken_site.folders[-1] / "sitecustomize.py").write_text(code)
        assert omni("list-plugins", "--no-load").stderr == "[]\n"
        assert omni("--help").stderr == "[]\n"

    def test_a_misspelt_list_is_a_usage_error(self, omni):
        for flags in ((), ("--no-load",)):
            done = omni("list-plugins", "--plugins-block", "goood", *flags)
            assert done.returncode == 2
            assert "Did you mean 'good'?" in done.stderr

    def test_the_good_model_is_explained(self, omni, broken_site):
        done = omni("explain", str(broken_site.model("m", CONFIG)), "--format", "json")
        assert done.returncode == 0, done.stderr
        assert "voice" in done.stdout

    def test_the_good_model_speaks(self, omni, broken_site, tmp_path):
        broken_site.distribution("voice", modules={"nowhere": VOICE})
        model = str(broken_site.model("m", CONFIG))
        done = omni("speak", "--model", model, "three small words", "-o", "out.wav")
        assert done.returncode == 0, done.stderr
        with wave.open(str(tmp_path / "out.wav")) as spoken:
            assert spoken.getnframes() == 3 * 2400

    def test_the_broken_one_that_is_asked_for_stops_with_its_cause(self, omni, broken_site):
        broken_site.plugin("needed", "import no_such_package", claims={"models": ("NeededModel",)})
        model = broken_site.model("n", '{"architectures": ["NeededModel"]}')
        done = omni("explain", str(model))
        assert done.returncode == 3
        assert "plugin 'needed' of omni-needed 1.0" in done.stderr
        assert "pip install --force-reinstall omni-needed" in done.stderr
        assert "Traceback" not in done.stderr
