"""`omni explain`: the graph with its processes, transports and arguments."""

import json


def test_the_text_names_stages_processes_edges_tasks_and_sources(toy):
    done = toy.run("explain", "toy", OMNI_STAGES__TONES__SERVER_ARGS__CHUNK_S="0.5")
    assert done.returncode == 0
    assert done.stderr == ""
    for line in (
        "  plugin    toy (omni-toy 1.0)",
        "  tones: process tones, cpu, no batches, at most 256 requests",
        "    chunk_s  0.5  OMNI_STAGES__TONES__SERVER_ARGS__CHUNK_S",
        "    load_s  0  plugin toy",
        "  words -> tones  payload  shm",
        "  speech: enters at words, gives audio at 8000 Hz from tones",
        "    voices: sine",
        "      pitch  number  default 440.0  in Hz",
    ):
        assert f"\n{line}\n" in done.stdout


def test_json_holds_the_same_for_programs(toy):
    data = json.loads(toy.run("explain", "toy", "--format", "json").stdout)
    assert data["model"]["owner"] == "toy"
    assert [p["name"] for p in data["processes"]] == ["words", "tones"]
    assert data["stages"][1]["server_args"] == {"chunk_s": {"value": 0, "source": "plugin toy"}}
    assert data["edges"][0]["transport"] == "shm"
    assert data["tasks"][0]["voices"] == ["sine"]
    assert data["settings"]["model.reference"]["value"] == "toy"
    assert data["settings"]["model.reference"]["source"] == "MODEL"
    assert data["settings"]["server.port"] == {
        "value": 8000,
        "source": "default",
        "description": "0 takes a free one",
    }
    assert {
        "name": "toy",
        "module": "toy_plugin",
        "distribution": "omni-toy",
        "version": "1.0",
    } in (data["plugins"])


def test_mermaid_draws_processes_and_edges(toy):
    chart = toy.run("explain", "toy", "--format", "mermaid").stdout.splitlines()
    assert chart[0] == "flowchart LR"
    assert '  subgraph p0["process words"]' in chart
    assert '  s0 -- "payload over shm" --> s1' in chart
    assert '  s1 -- "audio 8000 Hz" --> client' in chart


def test_arguments_of_an_engine_that_is_not_installed_are_marked(toy):
    toy.distribution(
        "omni-far",
        """
        [omni_host.plugins]
        far = far
        [omni_host.engines]
        far = far
        """,
        {
            "far": """
            from omni_host.api import EngineSpec, PluginInfo, hookimpl
            PLUGIN = PluginInfo(name="far", summary="")
            @hookimpl
            def stage_engines():
                return [EngineSpec(name="far", target="far:Engine", requires=("far_away.core",),
                                   install_hint="pip install far-away")]
            """
        },
    )
    plugin = toy.site / "toy_plugin.py"
    tones = 'target="toy_stages:Tones", '
    plugin.write_text(plugin.read_text().replace(tones, f'{tones}engine="auto", '))
    done = toy.run("explain", "toy", "--set", "stages.tones.engine=far")
    assert "(unchecked: far_away.core is not installed, pip install far-away)" in done.stdout
    assert done.stdout.count("unchecked") == 1


def test_the_model_may_come_from_the_configuration(toy):
    (toy.folder / "omni.toml").write_text('[model]\nreference = "toy"\n')
    done = toy.run("explain")
    assert done.stdout.startswith("Model toy\n")
    assert 'model.reference  "toy"  omni.toml' in done.stdout


def test_settings_left_at_their_defaults_are_shown_when_asked_for(toy):
    short = toy.run("explain", "toy").stdout
    assert "server.port" not in short
    assert short.endswith("\n  omni explain -v shows the defaults too\n")
    long = toy.run("explain", "toy", "-v", "--set", "stages.tones.max_concurrent=3").stdout
    words = [line.split() for line in long.splitlines()]
    assert ["server.port", "8000", "default", "0", "takes", "a", "free", "one"] in words
    assert any(line[:2] == ["stages.tones.max_concurrent", "3"] for line in words)
