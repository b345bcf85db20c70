"""Commands that plugins add."""

GREET = """
import click

@click.command()
@click.argument("name")
def greet(name):
    click.echo(f"hello {name}")
"""


def command(shell, target, module, source, distribution="omni-greet"):
    shell.distribution(distribution, f"[omni_host.commands]\ngreet = {target}\n", {module: source})


def test_a_plugins_command_is_listed_without_import_and_runs(shell):
    command(shell, "greeting:greet", "greeting", "print('imported')" + GREET)
    listed = shell.run("--help").stdout
    assert "Commands of plugins:\n  greet  of omni-greet 1.0" in listed
    assert "imported" not in listed
    assert shell.run("greet", "you").stdout == "imported\nhello you\n"


def test_a_misspelt_one_is_suggested(shell):
    command(shell, "greeting:greet", "greeting", GREET)
    assert "Did you mean 'greet'?" in shell.run("great").stderr


def test_a_broken_one_names_its_distribution_and_hurts_nobody_else(shell):
    command(shell, "greeting:greet", "greeting", "import no_such_module")
    assert "greet" in shell.run("--help").stdout
    done = shell.run("greet")
    assert done.returncode == 3
    assert "'greet' of omni-greet 1.0 cannot be loaded" in done.stderr
    assert "no_such_module" in done.stderr
    assert "hint: pip install --force-reinstall omni-greet" in done.stderr


def test_one_that_ends_the_process_at_import_is_named(shell):
    command(shell, "greeting:greet", "greeting", "raise SystemExit(0)")
    done = shell.run("greet")
    assert done.returncode == 3
    assert "SystemExit" in done.stderr


def test_one_that_is_no_command_is_named(shell):
    command(shell, "greeting:greet", "greeting", "greet = 3")
    done = shell.run("greet")
    assert done.returncode == 3
    assert "greeting:greet is no click command but 3" in done.stderr


def test_one_that_two_distributions_claim_is_nobodys(shell):
    command(shell, "greeting:greet", "greeting", GREET)
    command(shell, "other:greet", "other", GREET, distribution="omni-other")
    done = shell.run("greet")
    assert done.returncode == 3
    assert "omni-greet 1.0 and by omni-other 1.0" in done.stderr


def test_the_hosts_own_commands_cannot_be_replaced(toy):
    toy.distribution(
        "omni-thief", "[omni_host.commands]\nexplain = thief:greet\n", {"thief": GREET}
    )
    assert "Model toy" in toy.run("explain", "toy").stdout


def test_one_of_a_blocked_plugin_does_not_run(shell):
    shell.distribution(
        "omni-greet",
        "[omni_host.plugins]\ngreet = greeting\n[omni_host.commands]\ngreet = greeting:greet\n",
        {"greeting": GREET},
    )
    done = shell.run("greet", "you", OMNI_PLUGINS__BLOCK="greet")
    assert done.returncode == 3
    assert "blocked" in done.stderr
