from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from omni_host.cli.entry import omni
from omni_host.cli.options import Invocation
from omni_host.plugins import discover


@pytest.fixture
def run(site, monkeypatch, tmp_path):
    """Run `omni list-plugins` in this process, seeing nothing but the site."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> str:
        folders = [str(folder) for folder in site.folders]
        monkeypatch.setattr("omni_host.cli.list_plugins.discover", lambda: discover(folders))
        command = ["list-plugins", *arguments]
        done = CliRunner().invoke(omni, command, obj=Invocation(), catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    return invoke


def test_the_table_has_a_line_for_each_plugin_with_what_it_provides(site, run):
    site.host()
    site.family("tone", "ToneModel", "tone-small")
    site.plugin("kept-out")
    own = "platforms: cpu; engines: sglang, torch; transports: inline, shm; launchers: local"
    assert run("--plugins-block", "kept-out").splitlines() == [
        "PLUGIN    STATE    DISTRIBUTION       PROVIDES",
        f"builtin   loaded   omni-host 0.1.0    {own}",
        "kept-out  blocked  omni-kept-out 1.0",
        "tone      loaded   omni-tone 1.0      models: ToneModel, tone-small",
    ]


def test_no_load_finds_them_without_importing(site, run):
    site.plugin("tone", "raise SystemExit(9)")
    assert "tone    found  omni-tone 1.0" in run("--no-load")


def test_verbose_shows_what_a_plugin_says_of_itself(site, run):
    info = "PLUGIN = PluginInfo(name='tone', summary='Two tones', verified='H200, 2026-12')\n"
    metadata = site.plugin("tone", info=info, body="@hookimpl\ndef claim_model(model): ...")
    output = run("-v")
    assert "  Two tones\n" in output
    assert "  verified     H200, 2026-12\n" in output
    assert "  module       omni_tone\n" in output
    assert f"  metadata     {metadata}\n" in output


def test_commands_of_plugins_are_listed(site, run):
    commands = {"omni_host.commands": {"tune": "omni_tone.cli:tune"}}
    site.distribution("omni-tone", entry_points=commands)
    assert "command tune of omni-tone 1.0\n" in run()
    assert json.loads(run("--json"))["commands"] == [
        {
            "name": "tune",
            "target": "omni_tone.cli:tune",
            "distribution": "omni-tone",
            "version": "1.0",
        }
    ]


def test_json_is_what_the_table_shows(site, run):
    metadata = site.family("tone", "ToneModel")
    report = json.loads(run("--json"))
    assert report["plugins"] == [
        {
            "name": "tone",
            "distribution": "omni-tone",
            "version": "1.0",
            "metadata": str(metadata),
            "module": "omni_tone",
            "state": "loaded",
            "summary": "the tone plugin",
            "api_version": 1,
            "verified": "",
        }
    ]
    assert report["claims"] == [
        {
            "group": "omni_host.models",
            "name": "ToneModel",
            "plugin": "tone",
            "distribution": "omni-tone",
            "version": "1.0",
        }
    ]
    assert report["faults"] == []
