"""One broken plugin at a time: what is said about it, and that nothing else suffers."""

from __future__ import annotations

import sys

import pytest

from omni_host.errors import ConfigError
from omni_host.plugins import Fault, Plugins


def the_fault(plugins: Plugins) -> Fault:
    """The only fault; the good plugin beside it is loaded."""
    states = {p.name: p.state for p in plugins.report.plugins}
    assert states == {"bad": "broken", "good": "loaded"}
    (fault,) = plugins.report.faults
    assert (fault.plugin, fault.distribution, fault.version) == ("bad", "omni-bad", "1.0")
    return fault


@pytest.fixture
def beside_good(site):
    site.family("good", "GoodModel")
    return site


@pytest.mark.parametrize(
    ("body", "kind", "cause"),
    [
        ("import no_such_package", "import-failed", "No module named 'no_such_package'"),
        ("from os import no_such_name", "import-failed", "cannot import name 'no_such_name'"),
        ("raise ValueError('boom')", "import-failed", "ValueError: boom ("),
        ("class Odd(BaseException): ...\nraise Odd", "import-failed", "Odd ("),
        ("def broken(:", "import-failed", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(7)", "exits-at-import", "ends the process at import: 7"),
        ("del PLUGIN", "no-plugin-info", "omni_bad has no PLUGIN"),
        ("PLUGIN = 'bad'", "no-plugin-info", "has a PLUGIN of type str"),
        (
            "PLUGIN = PluginInfo(name='worse', summary='')",
            "name-mismatch",
            "PLUGIN.name is 'worse', the entry point's name 'bad'",
        ),
        (
            "@hookimpl\ndef build_stage(model, options, platform): ...",
            "unknown-hook",
            "there is no hook 'build_stage'. Did you mean 'build_stages'?",
        ),
        (
            "@hookimpl\ndef build_stages(modle): ...",
            "hook-arguments",
            "not given 'modle', it may ask for model, options, platform. Did you mean 'model'?",
        ),
        (
            "def build_stages(model): ...",
            "unmarked-hook",
            "the function 'build_stages' is not marked with @hookimpl",
        ),
        (
            "@hookimpl\ndef claim_model(): ...\n@hookimpl(specname='claim_model')\ndef also(): ...",
            "repeated-hook",
            "'claim_model' and 'also' both implement claim_model",
        ),
        (
            "@hookimpl(tryfirst=True)\ndef claim_model(model): ...",
            "hook-order",
            "'claim_model' asks to be first or last",
        ),
        (
            "@hookimpl(wrapper=True)\ndef claim_model(model): return (yield)",
            "hook-wrapper",
            "'claim_model' wraps claim_model; only build_stages may be wrapped",
        ),
        (
            "@hookimpl(wrapper=True)\ndef build_stages(model): ...",
            "invalid-hook",
            "is not a generator function",
        ),
        (
            "@hookimpl\nasync def build_stages(model): ...",
            "invalid-hook",
            "'build_stages' is async; hooks are plain functions",
        ),
        (
            "PLUGIN = PluginInfo(name='bad', summary=None)",
            "no-plugin-info",
            "summary and verified of PLUGIN must be text",
        ),
    ],
)
def test_a_broken_plugin_is_a_fault_with_its_cause(beside_good, body, kind, cause):
    beside_good.plugin("bad", body)
    fault = the_fault(beside_good.load())
    assert fault.kind == kind
    assert cause in fault.cause
    assert "omni-bad" in fault.fix


def test_a_module_that_is_not_there_is_a_broken_installation(beside_good):
    beside_good.distribution(
        "omni-bad", entry_points={"omni_host.plugins": {"bad": "omni_bad.plugin"}}
    )
    fault = the_fault(beside_good.load())
    assert fault.kind == "import-failed"
    assert fault.fix == "pip install --force-reinstall omni-bad"


@pytest.mark.parametrize(("version", "fix"), [(99, "--upgrade omni-host"), (0, "omni-bad")])
def test_another_api_version_says_which_side_to_upgrade(beside_good, version, fix):
    info = f"PLUGIN = PluginInfo(name='bad', summary='', api_version={version})\n"
    beside_good.plugin("bad", info=info)
    fault = the_fault(beside_good.load())
    assert fault.kind == "api-version"
    assert f"written for plugin API {version}" in fault.cause
    assert fix in fault.fix


@pytest.mark.parametrize("statement", ["import torch", "from torch import nn", "import torch.nn"])
@pytest.mark.parametrize("installed", [True, False])
def test_torch_is_refused_in_the_host(beside_good, statement, installed):
    if installed:
        beside_good.distribution("torch", modules={"torch": "nn = 1"})
    beside_good.plugin("bad", statement)
    fault = the_fault(beside_good.load())
    assert fault.kind == "forbidden-import"
    assert "imports torch in the host process" in fault.cause
    assert "torch" not in sys.modules


def test_an_optional_hook_may_be_unknown(site):
    body = "@hookimpl(optionalhook=True)\ndef hook_of_the_future(model): ..."
    site.plugin("modern", body)
    assert site.load().report.faults == ()


def test_an_argument_with_a_default_may_be_unknown(site):
    site.plugin("modern", "@hookimpl\ndef claim_model(model, later=None): ...")
    assert site.load().report.faults == ()


def test_an_interrupt_while_importing_stops_the_host(site):
    site.plugin("slow", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        site.load()


def test_what_a_plugin_prints_while_importing_does_not_reach_the_output(site, capsys):
    site.plugin("chatty", "print('hello')")
    site.load()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_neither_of_two_namesakes_is_loaded(beside_good):
    beside_good.plugin("bad", distribution="omni-bad")
    beside_good.plugin("bad", distribution="acme-bad")
    report = beside_good.load().report
    assert [(p.name, p.distribution, p.state) for p in report.plugins] == [
        ("bad", "acme-bad", "broken"),
        ("bad", "omni-bad", "broken"),
        ("good", "omni-good", "loaded"),
    ]
    assert "acme_bad" not in sys.modules


def test_a_namesake_of_the_host_cannot_take_its_place(site):
    site.host()
    site.plugin("builtin", distribution="acme-builtin")
    plugins = site.load()
    assert [(p.distribution, p.state) for p in plugins.report.plugins] == [
        ("acme-builtin", "broken"),
        ("omni-host", "loaded"),
    ]
    assert [f.distribution for f in plugins.report.faults] == ["acme-builtin"]
    assert plugins.platform().name == "cpu"


def test_only_allowed_plugins_are_imported(site):
    for name in ("one", "two", "three"):
        site.plugin(name)
    plugins = site.load(allow=("one", "two"))
    assert {p.name: p.state for p in plugins.report.plugins} == {
        "one": "loaded",
        "two": "loaded",
        "three": "blocked",
    }
    assert "omni_three" not in sys.modules


def test_blocked_plugins_are_not_imported_and_are_no_fault(site):
    site.plugin("one")
    site.plugin("bad", "raise ValueError")
    plugins = site.load(block=("bad",))
    assert [p.state for p in plugins.report.plugins] == ["blocked", "loaded"]
    assert plugins.report.faults == ()


def test_an_allow_list_leaves_the_host_itself_in(site):
    site.host()
    site.plugin("one")
    plugins = site.load(allow=("one",))
    assert [p.state for p in plugins.report.plugins] == ["loaded", "loaded"]


@pytest.mark.parametrize(
    ("lists", "message", "field"),
    [
        ({"allow": ("tune",)}, "Did you mean 'tone'?", "plugins.allow"),
        ({"block": ("omni-tone",)}, "Did you mean 'tone'?", "plugins.block"),
        ({"block": ("zebra",)}, "names 'zebra', but no such plugin", "plugins.block"),
        ({"allow": ("tone",), "block": ("tone",)}, "both allowed and blocked", "plugins.block"),
        ({"block": ("builtin",)}, "is the host itself", "plugins.block"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(site, lists, message, field):
    site.host()
    site.plugin("tone")
    with pytest.raises(ConfigError) as caught:
        site.load(**lists)
    assert message in caught.value.message
    assert caught.value.field == field
    assert caught.value.hint
