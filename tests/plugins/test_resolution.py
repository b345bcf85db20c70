from __future__ import annotations

import pytest

from omni_host.errors import (
    AmbiguousClaimError,
    ConfigError,
    HookError,
    ModelError,
    OmniError,
    PluginLoadError,
    UnclaimedError,
)

TONE = '{"architectures": ["ToneModel"], "model_type": "tone"}'


def alias(place: object) -> str:
    return f"@hookimpl\ndef claim_model(model):\n    return Claim(path={str(place)!r})\n"


def refused(error: type[OmniError], plugins, *arguments, **named) -> OmniError:
    with pytest.raises(error) as caught:
        plugins.resolve_model(*arguments, **named)
    return caught.value


def test_a_folder_belongs_to_the_plugin_that_claims_its_architecture(site):
    site.family("tone", "ToneModel")
    folder = site.model("m", TONE)
    resolved = site.load().resolve_model(str(folder))
    assert (resolved.owner, resolved.distribution) == ("tone", "omni-tone")
    assert resolved.model.path == folder
    assert resolved.model.reference == str(folder)
    assert resolved.model.config["model_type"] == "tone"


def test_a_folder_belongs_to_the_plugin_that_claims_its_model_type(site):
    site.family("tone", "tone-family", "tone")
    assert site.load().resolve_model(str(site.model("m", TONE))).owner == "tone"


def test_without_a_model_plugin_it_is_said_which_to_install(site, monkeypatch):
    site.host()
    error = refused(UnclaimedError, site.load(), "default")
    assert error.message == "No model was named, and no installed plugin claims 'default'."
    assert error.hint == "pip install omni-demo, or any plugin that claims 'default'"
    site.family("tone", "ToneModel")
    monkeypatch.chdir(site.model("default", TONE).parent)
    assert site.load().resolve_model("default").owner == "tone"


def test_a_relative_folder_and_one_in_the_home_are_found(site, monkeypatch):
    site.family("tone", "ToneModel")
    folder = site.model("m", TONE)
    plugins = site.load()
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert plugins.resolve_model("m").model.path == folder
    assert plugins.resolve_model("./m").model.path == folder
    assert plugins.resolve_model("~/m").model.path == folder


def test_an_alias_stands_for_a_folder_whose_config_decides_the_owner(site):
    folder = site.model("m", TONE)
    site.plugin("shortcuts", alias(folder), claims={"models": ("tiny",)})
    site.family("tone", "ToneModel")
    resolved = site.load().resolve_model("tiny")
    assert resolved.owner == "tone"
    assert resolved.model.reference == "tiny"
    assert resolved.model.path == folder


def test_an_alias_goes_before_a_folder_of_that_name(site, monkeypatch):
    folder = site.model("m", TONE)
    site.model("tiny", '{"model_type": "other"}')
    site.plugin("tone", alias(folder), claims={"models": ("tiny", "tone")})
    monkeypatch.chdir(folder.parent)
    assert site.load().resolve_model("tiny").model.path == folder


def test_two_plugins_with_one_alias_are_ambiguous_until_an_owner_is_named(site):
    folder = site.model("m", TONE)
    body = alias(folder) + "@hookimpl\ndef build_stages(model): ..."
    for name in ("b", "a"):
        site.plugin(name, body, claims={"models": ("tiny", "ToneModel")})
    plugins = site.load()
    error = refused(AmbiguousClaimError, plugins, "tiny")
    assert "plugin 'a' (omni-a 1.0) and plugin 'b' (omni-b 1.0)" in error.message
    assert error.hint == "--set model.owner=a or --set model.owner=b"
    assert error.field == "model.owner"
    refused(AmbiguousClaimError, plugins, str(folder))
    assert plugins.resolve_model("tiny", owner="b").owner == "b"
    assert plugins.resolve_model(str(folder), owner="b").owner == "b"


def test_an_owner_must_be_a_plugin_that_builds_models(site):
    site.family("tone", "ToneModel")
    site.plugin("tool")
    plugins = site.load()
    folder = str(site.model("m", TONE))
    assert "Did you mean 'tone'?" in refused(ConfigError, plugins, folder, owner="tona").message
    assert refused(ConfigError, plugins, folder, owner="tool").field == "model.owner"


def test_without_a_static_claim_every_plugin_is_asked(site):
    other = site.model("other", TONE)
    site.plugin("silent", "@hookimpl\ndef claim_model(model): return None")
    site.plugin("broken", "@hookimpl\ndef claim_model(model): raise ValueError('boom')")
    body = (
        "@hookimpl\ndef claim_model(model):\n    return Claim() if 'tone' in model.config else None"
    )
    site.plugin("tone", body)
    site.plugin("mover", f"@hookimpl\ndef claim_model(model):\n"
        f"    return Claim(path={str(other)!r}) if 'move' in model.config else None")  # fmt: skip
    plugins = site.load()
    assert plugins.resolve_model(str(site.model("m", '{"tone": 1}'))).owner == "tone"
    moved = plugins.resolve_model(str(site.model("n", '{"move": 1}')))
    assert (moved.owner, moved.model.path) == ("mover", other)
    assert [(f.plugin, f.kind) for f in plugins.report.faults] == [("broken", "hook-failed")]
    assert "claim_model raised ValueError: boom" in plugins.report.faults[0].cause
    both = str(site.model("both", '{"tone": 1, "move": 1}'))
    assert "'mover'" in refused(AmbiguousClaimError, plugins, both).message


def test_a_model_that_nobody_claims_says_what_it_is_and_what_is_installed(site):
    site.family("tone", "ToneModel", "tone-small")
    site.plugin("bad", "raise ValueError")
    site.plugin("kept-out", distribution="omni-kept")
    folder = site.model("m", '{"architectures": ["ToneModels"], "model_type": "zz"}')
    error = refused(UnclaimedError, site.load(block=("kept-out",)), str(folder))
    assert "architectures ['ToneModels'] and model_type 'zz'" in error.message
    assert "The closest claim is 'ToneModel'" in error.message
    assert "tone (omni-tone 1.0) for ToneModel, tone-small" in error.message
    assert "broken: bad; blocked: kept-out" in error.message


def test_a_config_that_says_nothing_is_unclaimed(site):
    error = refused(UnclaimedError, site.load(), str(site.model("m", "{}")))
    assert "neither architectures nor model_type" in error.message


def test_a_model_of_a_broken_plugin_names_the_plugin_the_cause_and_the_fix(site):
    site.plugin("tone", "import no_such_package", claims={"models": ("ToneModel", "tiny")})
    plugins = site.load()
    for reference in ("tiny", str(site.model("m", TONE))):
        error = refused(PluginLoadError, plugins, reference)
        assert "plugin 'tone' of omni-tone 1.0" in error.message
        assert "No module named 'no_such_package'" in error.message
        assert error.hint == "pip install --force-reinstall omni-tone"
    refused(PluginLoadError, plugins, reference, owner="tone")


def test_a_model_of_a_blocked_plugin_names_the_list(site):
    site.family("tone", "ToneModel")
    error = refused(UnclaimedError, site.load(block=("tone",)), str(site.model("m", TONE)))
    assert "plugin 'tone', which is blocked" in error.message
    assert "plugins.block" in error.hint


def test_a_broken_rival_does_not_take_a_model_away(site):
    site.family("tone", "ToneModel")
    site.plugin("rival", "raise ValueError", claims={"models": ("ToneModel",)})
    assert site.load().resolve_model(str(site.model("m", TONE))).owner == "tone"


def test_a_misspelt_alias_gets_a_suggestion(site):
    site.family("tone", "tone-small")
    error = refused(ModelError, site.load(), "tone-smal")
    assert "Did you mean 'tone-small'?" in error.message


def test_the_name_of_an_architecture_is_no_alias(site):
    site.plugin("tone", "@hookimpl\ndef claim_model(model): ...", claims={"models": ("ToneModel",)})
    error = refused(ModelError, site.load(), "ToneModel")
    assert "stands for no model of its own" in error.message


def test_an_alias_whose_plugin_raises_is_no_isolated_fault(site):
    body = "@hookimpl\ndef claim_model(model): raise OSError('disk')"
    site.plugin("tone", body, claims={"models": ("tiny",)})
    error = refused(HookError, site.load(), "tiny")
    said = "plugin 'tone' (omni-tone 1.0): claim_model raised OSError: disk (omni_tone.py:6)."
    assert error.message == said


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"architectures": "X"}', "'architectures' must be a list of names"),
        ('{"architectures": [1]}', "'architectures' must be a list of names"),
        ('{"model_type": 3}', "'model_type' must be a name"),
    ],
)
def test_a_config_that_is_none_is_refused(site, config, cause):
    error = refused(ModelError, site.load(), str(site.model("m", config)))
    assert cause in error.message
    assert "config.json" in error.message


def test_a_config_that_is_no_text_is_refused(site):
    folder = site.model("m", "{}")
    (folder / "config.json").write_bytes(b"\xff\xfe{}")
    assert "is not JSON" in refused(ModelError, site.load(), str(folder)).message


def test_a_folder_without_a_config_is_refused(site):
    (site.root / "empty").mkdir()
    error = refused(ModelError, site.load(), str(site.root / "empty"))
    assert "has no config.json" in error.message


def test_a_path_that_is_not_there_or_is_a_file_is_refused(site):
    plugins = site.load()
    assert "There is no folder" in refused(ModelError, plugins, str(site.root / "no")).message
    file = site.model("m", TONE) / "config.json"
    assert refused(ModelError, plugins, str(file)).hint == f"name its folder: {file.parent}"


def test_a_folder_has_no_revision(site):
    error = refused(ModelError, site.load(), str(site.model("m", TONE)), "main")
    assert "only models of a hub have revisions" in error.message


def test_a_word_that_is_nothing_says_what_it_could_be(site):
    error = refused(ModelError, site.load(), "zebra")
    assert "neither an alias of an installed plugin, nor a folder, nor a hub name" in error.message


CLAIMING = """
@hookimpl
def claim_model(model):
    if model.reference == "broken":
        raise OSError("no network")
    places = {{"voice": {m!r}, "default": {m!r} + "/.", "other": {n!r}}}
    return Claim(path=places[model.reference]) if model.reference in places else None
"""


def test_the_aliases_of_a_model_are_the_owners_claims_that_lead_to_it(site):
    m, n = str(site.model("m", TONE)), str(site.model("n", TONE))
    names = ("voice", "default", "other", "broken", "ToneModel")
    site.plugin("tone", CLAIMING.format(m=m, n=n), claims={"models": names})
    plugins = site.load()
    for reference in ("voice", "default", m):
        assert plugins.resolve_model(reference).aliases == ("default", "voice")
    assert plugins.resolve_model("other").aliases == ("other",)
    assert not plugins.report.faults
