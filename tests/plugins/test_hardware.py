from __future__ import annotations

import pytest

from omni_host.errors import AmbiguousClaimError, HookError, PlatformError, PluginLoadError


def probing(name: str, priority: int) -> str:
    return f"""
@hookimpl
def hardware_platform(request):
    return PlatformProbe(name={name!r}, devices=("{name}:0",), priority={priority})
"""


def chip(site, name: str, priority: int, plugin: str | None = None) -> None:
    site.plugin(plugin or name, probing(name, priority), claims={"platforms": (name,)})


def test_the_highest_priority_is_chosen(site):
    site.host()
    chip(site, "fast", 20)
    chip(site, "slow", 10)
    plugins = site.load()
    assert plugins.platform().name == "fast"
    assert plugins.platform("slow").devices == ("slow:0",)
    assert plugins.platform("cpu").name == "cpu"


def test_the_cpu_is_what_is_left(site):
    site.host()
    site.plugin(
        "gone", "@hookimpl\ndef hardware_platform(request): ...", claims={"platforms": ("gone",)}
    )
    plugins = site.load()
    assert plugins.platform().name == "cpu"
    with pytest.raises(PlatformError, match="found no 'gone' hardware here"):
        plugins.platform("gone")


def test_a_tie_names_the_candidates_and_the_override(site):
    chip(site, "b", 5)
    chip(site, "a", 5)
    with pytest.raises(PlatformError) as caught:
        site.load().platform()
    assert caught.value.message == "Several platforms have priority 5: a, b."
    assert caught.value.hint == "--set platform.name=a or --set platform.name=b"


def test_a_misspelt_platform_gets_a_suggestion(site):
    site.host()
    with pytest.raises(PlatformError) as caught:
        site.load().platform("cpv")
    assert "Did you mean 'cpu'?" in caught.value.message
    assert caught.value.hint == "installed platforms: cpu"


def test_a_failing_probe_is_isolated_unless_it_was_asked_for(site):
    site.host()
    body = "@hookimpl\ndef hardware_platform(request): raise OSError('driver')"
    site.plugin("chip", body, claims={"platforms": ("chip",)})
    plugins = site.load()
    assert plugins.platform().name == "cpu"
    assert [(f.plugin, f.kind) for f in plugins.report.faults] == [("chip", "hook-failed")]
    with pytest.raises(HookError, match=r"plugin 'chip' \(omni-chip 1.0\).*OSError: driver"):
        plugins.platform("chip")


def test_a_broken_plugin_is_named_when_its_platform_is_asked_for(site):
    site.host()
    site.plugin("chip", "raise ValueError", claims={"platforms": ("chip",)})
    plugins = site.load()
    assert plugins.platform().name == "cpu"
    with pytest.raises(PluginLoadError, match=r"plugin 'chip' of omni-chip 1\.0: ValueError"):
        plugins.platform("chip")


def test_a_probe_of_an_unclaimed_name_is_left_out_and_reported(site):
    site.host()
    site.plugin("chip", probing("other", 50), claims={"platforms": ("chip",)})
    plugins = site.load()
    assert plugins.platform().name == "cpu"
    (fault,) = plugins.report.faults
    assert (fault.plugin, fault.kind) == ("chip", "offer-without-claim")


def test_two_plugins_for_one_platform_are_ambiguous_if_it_is_asked_for(site):
    chip(site, "chip", 1, plugin="x")
    chip(site, "chip", 1, plugin="y")
    with pytest.raises(AmbiguousClaimError) as caught:
        site.load().platform("chip")
    assert caught.value.hint == "--plugins-block x or --plugins-block y"


def test_without_any_hardware_the_broken_plugins_are_named(site):
    site.plugin("chip", "raise ValueError", claims={"platforms": ("chip",)})
    with pytest.raises(PlatformError, match="broken: chip"):
        site.load().platform()
