"""`omni` itself: help, errors as sentences, exit codes."""

import pytest

import omni_host


def test_without_a_command_it_shows_what_there_is(shell):
    done = shell.run()
    assert done.returncode == 0
    assert "omni speak" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["speak", "serve", "explain", "list-plugins"])
def test_every_command_is_listed_and_has_help(shell, command):
    assert f"\n  {command} " in shell.run("--help").stdout
    done = shell.run(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: omni {command}")
    assert "--set KEY=VALUE" in done.stdout


def test_it_tells_its_version(shell):
    assert shell.run("--version").stdout == f"omni-host {omni_host.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serv"], "There is no command 'serv'. Did you mean 'serve'?"),
        (["frobnicate"], "There is no command 'frobnicate'."),
        (["--hepl"], "No such option '--hepl'. Did you mean '--help'?"),
        (["explain", "--fromat", "json"], "No such option '--fromat'. Did you mean '--format'?"),
        (["explain", "--format", "yaml"], "'yaml' is not one of 'text', 'json', 'mermaid'"),
    ],
)
def test_a_wrong_command_line_is_a_sentence_and_a_hint(shell, arguments, sentence):
    done = shell.run(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.startswith("error: ")
    assert "\nhint: omni " in done.stderr
    assert "--help" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--set", "sever.port=1"], 2, "no setting sever (from --set sever.port)"),
        (["--config", "no.toml"], 2, "no configuration file no.toml (--config)"),
        (["--set", "stages.tonse.device=cpu"], 2, "Did you mean 'tones'?"),
        (["--set", "launcher.name=ray"], 3, "the launcher 'ray'"),
        (["--set", "stages.tones.engine=torch"], 2, "the stage tones takes no engine"),
        (["--plugins-block", "toy"], 3, "toy"),
        (["--plugins-allow", "tyo"], 2, "Did you mean 'toy'?"),
        (["--set", "platform.name=cuda"], 4, "cuda"),
        (["--set", "stages.tones.device=cuda:3"], 4, "cuda:3"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(toy, arguments, code, sentence):
    done = toy.run("explain", "toy", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_model_that_does_not_exist_is_a_usage_error(shell):
    done = shell.run("explain", "./nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr


def test_a_traceback_is_shown_with_v_alone(toy):
    assert "Traceback" not in toy.run("explain", "./nowhere").stderr
    for arguments in (["-v", "explain", "./nowhere"], ["explain", "./nowhere", "-v"]):
        done = toy.run(*arguments)
        assert "Traceback" in done.stderr
        assert "\nerror: " in done.stderr


def test_options_may_stand_before_the_command_or_after_it(toy):
    before = toy.run("--set", "placement=fused", "explain", "toy")
    after = toy.run("explain", "toy", "--set", "placement=fused")
    assert before.stdout == after.stdout
    assert "process stages" in before.stdout


def test_an_error_that_nobody_foresaw_says_so_in_a_line(shell):
    done = shell.python(
        """
        import click
        from omni_host.cli import main
        from omni_host.cli.entry import omni

        omni.get_command = lambda ctx, name: click.Command(name, callback=lambda: {}["x"])
        raise SystemExit(main(["broken"]))
        """
    )
    assert done.returncode == 1
    assert done.stderr == "error: KeyError: 'x'\nhint: This is a defect. -v shows where it is.\n"


def test_a_reader_that_goes_away_is_no_error_to_talk_about(toy):
    process = toy.start("explain", "toy")
    process.stdout.close()
    assert process.wait() == 1
    assert process.stderr.read() == b""


def test_a_closed_output_is_none(toy):
    done = toy.python(
        """
        import subprocess, sys
        from pathlib import Path
        omni = Path(sys.executable).with_name("omni")
        raise SystemExit(subprocess.call(f"{omni} explain toy >&-", shell=True))
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["serve"], ["speak", "hi", "--model"]])
def test_a_model_that_does_not_speak_is_explained_and_not_served(toy, command):
    plugin = toy.site / "toy_plugin.py"
    plugin.write_text(plugin.read_text().replace('name="speech"', 'name="hearing"'))
    done = toy.run(*command, "toy")
    assert done.returncode == 2
    assert "The model toy does not speak" in done.stderr
    assert "tasks: hearing." in done.stderr
    assert "hearing: enters at words" in toy.run("explain", "toy").stdout
