from __future__ import annotations

import pytest


def engine(*names: str) -> str:
    specs = "".join(f"EngineSpec(name={name!r}, target='e:E')," for name in names)
    return f"@hookimpl\ndef stage_engines(): return ({specs})"


def test_the_host_offers_its_own_through_the_same_hooks(site):
    site.host()
    plugins = site.load()
    assert list(plugins.transports()) == ["inline", "shm"]
    assert list(plugins.engines()) == ["sglang", "torch"]
    assert list(plugins.launchers()) == ["local"]
    assert plugins.engines()["sglang"].requires == ("torch", "sglang")
    assert plugins.report.faults == ()


def test_offers_of_plugins_stand_beside_those_of_the_host(site):
    site.host()
    site.plugin("fast", engine("fast"), claims={"engines": ("fast",)})
    assert list(site.load().engines()) == ["fast", "sglang", "torch"]


@pytest.mark.parametrize(
    ("body", "claims", "kind", "cause"),
    [
        (engine("fast"), {}, "offer-without-claim", "offers 'fast', which"),
        ("", {"engines": ("fast",)}, "claim-without-offer", "claims 'fast', which stage_engines"),
        ("", {"platforms": ("chip",)}, "claim-without-offer", "there is no hardware_platform"),
        ("", {"models": ("X",)}, "claim-without-offer", "no build_stages or claim_model"),
        (
            engine("fast", "fast"),
            {"engines": ("fast",)},
            "duplicate-offer",
            "offers 'fast' twice",
        ),
        (
            engine("torch"),
            {"engines": ("torch",)},
            "duplicate-offer",
            "'torch' of [omni_host.engines] is also offered by builtin",
        ),
        (
            "@hookimpl\ndef stage_engines(): raise ValueError('boom')",
            {"engines": ("fast",)},
            "hook-failed",
            "stage_engines raised ValueError: boom",
        ),
        (
            "@hookimpl\ndef stage_engines(): return ['fast']",
            {"engines": ("fast",)},
            "hook-failed",
            "returned among its items a str, expected EngineSpec",
        ),
        (
            "@hookimpl\ndef stage_engines(): return 3",
            {},
            "hook-failed",
            "returned a int, expected an iterable of EngineSpec",
        ),
    ],
)
def test_claims_and_offers_that_do_not_meet_are_a_fault(site, body, claims, kind, cause):
    site.host()
    site.plugin("bad", body, claims=claims)
    plugins = site.load()
    (fault,) = plugins.report.faults
    assert (fault.plugin, fault.distribution, fault.kind) == ("bad", "omni-bad", kind)
    assert cause in fault.cause
    assert plugins.engines()["torch"].target.startswith("omni_host.")


def test_an_engine_of_two_plugins_is_nobodys(site):
    for name in ("x", "y"):
        site.plugin(name, engine("fast"), claims={"engines": ("fast",)})
    plugins = site.load()
    assert dict(plugins.engines()) == {}
    assert [(f.plugin, f.kind) for f in plugins.report.faults] == [
        ("x", "duplicate-offer"),
        ("y", "duplicate-offer"),
    ]
    assert list(site.load(block=("y",)).engines()) == ["fast"]


def test_a_claim_that_names_no_plugin_is_a_fault_with_a_suggestion(site):
    site.family("tone", "ToneModel")
    site.distribution("stray", entry_points={"omni_host.models": {"Stray": "omni_tona"}})
    (fault,) = site.load().report.faults
    assert (fault.kind, fault.distribution) == ("claim-without-plugin", "stray")
    assert "Did you mean 'omni_tone'?" in fault.cause


def test_claims_of_a_broken_plugin_are_not_reported_on_top(site):
    site.plugin("bad", "raise ValueError", claims={"engines": ("fast",), "models": ("X",)})
    assert [f.kind for f in site.load().report.faults] == ["import-failed"]
