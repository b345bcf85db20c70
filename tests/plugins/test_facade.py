from __future__ import annotations

import logging
import random
import sys
import types

import pytest

from omni_host.api import (
    Edge,
    ModelRef,
    PlatformProbe,
    RouteContext,
    StageContext,
    StageGraph,
    StageSpec,
    TransportSpec,
)
from omni_host.errors import ArgumentClashError, ConfigError, HookError, ModelError
from omni_host.offers import Sourced
from omni_host.plugins import Plugins

CPU = PlatformProbe(name="cpu", devices=("cpu",), priority=0)
MODEL = ModelRef(reference="m")
STAGE = StageSpec(name="talker", target="t:T", server_args={"a": 1, "b": 1, "c": 1, "d": 1})
WRAPPER = """
from dataclasses import replace

@hookimpl(wrapper=True)
def build_stages(model):
    graph = yield
    stages = tuple(replace(s, target=s.target + NAME) for s in graph.stages)
    return replace(graph, stages=stages)
"""


def built(plugins: Plugins, owner: str = "tone") -> StageGraph:
    return plugins.build_stages(owner, MODEL, {}, CPU)


def refused(plugins: Plugins, owner: str = "tone") -> str:
    with pytest.raises(HookError) as caught:
        built(plugins, owner)
    assert caught.value.field
    return caught.value.message


class TestBuildStages:
    def test_only_the_owner_is_asked(self, site):
        site.family("tone", "ToneModel")
        site.family("other", body="@hookimpl\ndef build_stages(model): raise RuntimeError")
        assert [stage.name for stage in built(site.load()).stages] == ["voice"]

    def test_the_owner_is_given_model_options_and_platform(self, site):
        site.family(
            "tone",
            body="""
            @hookimpl
            def build_stages(platform, options, model):
                target = f"{model.reference}:{platform.name}"
                return StageGraph(stages=(StageSpec(name="s", target=target, env=options),))
            """,
        )
        graph = site.load().build_stages("tone", MODEL, {"quick": "yes"}, CPU)
        assert graph.stages == (StageSpec(name="s", target="m:cpu", env={"quick": "yes"}),)

    def test_wrappers_nest_in_order_of_plugin_name_whatever_was_found_first(self, site):
        site.family("tone", "ToneModel")
        for name in ("c", "a", "b"):
            site.plugin(name, f"NAME = {name!r}" + WRAPPER)
        for seed in range(4):
            random.Random(seed).shuffle(site.folders)
            assert built(site.load()).stages[0].target == "nowhere:Voicecba"

    def test_the_same_arguments_give_the_same_graph(self, site):
        site.family("tone", "ToneModel")
        plugins = site.load()
        assert built(plugins) == built(plugins)

    def test_an_exception_names_plugin_distribution_and_hook(self, site):
        site.family("tone", body="@hookimpl\ndef build_stages(model): raise KeyError('x')")
        assert refused(site.load()) == (
            "plugin 'tone' (omni-tone 1.0): build_stages raised KeyError: 'x' (omni_tone.py:6)."
        )

    def test_an_exit_is_an_error_as_well(self, site):
        site.family("tone", body="@hookimpl\ndef build_stages(model): raise SystemExit(0)")
        assert "build_stages raised SystemExit: 0" in refused(site.load())

    def test_an_interrupt_goes_through(self, site):
        site.family("tone", body="@hookimpl\ndef build_stages(model): raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            built(site.load())

    def test_what_a_plugin_says_itself_goes_through_as_it_is(self, site):
        body = "@hookimpl\ndef build_stages(model): raise errors.ModelError('no weights')"
        site.family("tone", body=body)
        with pytest.raises(ModelError, match="no weights"):
            built(site.load())

    def test_a_wrapper_that_raises_is_named_rather_than_the_owner(self, site):
        site.family("tone", "ToneModel")
        site.plugin(
            "odd", "@hookimpl(wrapper=True)\ndef build_stages(): yield; raise ValueError('w')"
        )
        assert "plugin 'odd' (omni-odd 1.0): build_stages raised ValueError: w" in refused(
            site.load()
        )

    @pytest.mark.parametrize("result", ["None", "[]", "'graph'"])
    def test_anything_but_a_graph_is_refused(self, site, result):
        site.family("tone", body=f"@hookimpl\ndef build_stages(model): return {result}")
        assert "expected StageGraph" in refused(site.load())

    def test_an_owner_without_the_hook_is_named(self, site):
        site.plugin("tone")
        assert "has no build_stages" in refused(site.load())

    def test_torch_is_refused_while_a_hook_runs(self, site, monkeypatch):
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        site.distribution("torch", modules={"torch": ""})
        site.family("tone", body="@hookimpl\ndef build_stages(model): import torch")
        assert "the host process never imports torch" in refused(site.load())


def patching(value: str) -> str:
    return f"@hookimpl\ndef customize_server_args(stage, server_args):\n    return {value}"


def arguments(plugins: Plugins, operator: dict[str, Sourced] | None = None):
    found = plugins.server_args("tone", STAGE, CPU, operator or {})
    return {key: (sourced.value, sourced.source) for key, sourced in found.items()}


class TestServerArguments:
    def test_a_higher_rank_overrides_a_lower_one_and_the_source_is_kept(self, site):
        site.plugin("tone", patching("{'b': 2, 'c': 2, 'd': 2}"))
        site.plugin("chip", patching("{'c': 3, 'd': 3}"), claims={"platforms": ("cpu",)})
        site.plugin("zeta", patching("{'d': 4, 'e': 4}"))
        assert arguments(site.load(), {"e": Sourced(value=5, source="--set")}) == {
            "a": (1, "plugin tone"),
            "b": (2, "plugin tone"),
            "c": (3, "plugin chip"),
            "d": (4, "plugin zeta"),
            "e": (5, "--set"),
        }

    def test_each_rank_sees_what_the_ranks_below_gave(self, site):
        site.plugin("tone", patching("{'a': server_args['a'] + 1}"))
        site.plugin("y", patching("{'y': dict(server_args)}"))
        site.plugin("z", patching("{'z': dict(server_args)}"))
        found = arguments(site.load())
        below = {"a": 2, "b": 1, "c": 1, "d": 1}
        assert found["y"] == (below, "plugin y")
        assert found["z"] == (below, "plugin z")

    def test_two_plugins_of_one_rank_that_disagree_are_both_named(self, site):
        site.plugin("tone")
        site.plugin("y", patching("{'a': 5}"))
        site.plugin("z", patching("{'a': 6}"))
        plugins = site.load()
        with pytest.raises(ArgumentClashError) as caught:
            arguments(plugins)
        assert caught.value.message == (
            "Plugins 'y' and 'z' set 'a' of stage 'talker' differently: 5 and 6."
        )
        assert caught.value.hint == "--set stages.talker.server_args.a=VALUE"
        assert arguments(plugins, {"a": Sourced(value=7, source="--set")})["a"] == (7, "--set")

    def test_two_plugins_that_agree_are_no_clash(self, site):
        site.plugin("tone")
        site.plugin("y", patching("{'a': 5}"))
        site.plugin("z", patching("{'a': 5}"))
        assert arguments(site.load())["a"] == (5, "plugin y")

    def test_changing_what_one_is_given_changes_nothing(self, site):
        body = patching("server_args.update(a=9)")
        site.plugin("tone", body)
        assert arguments(site.load())["a"] == (1, "plugin tone")

    @pytest.mark.parametrize(
        ("value", "cause"),
        [
            ("[1]", "returned a list, expected a mapping or None"),
            ("{1: 1}", "returned as a key a int, expected str"),
            ("{'k': {'deep': [1, object()]}}", "for 'k.deep[1]' a object, expected plain data"),
            ("{'k': {1: 2}}", "as a key of 'k' a int, expected str"),
        ],
    )
    def test_a_patch_must_be_plain_data(self, site, value, cause):
        site.plugin("tone", patching(value))
        with pytest.raises(HookError) as caught:
            arguments(site.load())
        assert cause in caught.value.message

    def test_the_platform_is_fatal_and_others_are_isolated(self, site, caplog):
        site.plugin("tone")
        site.plugin("other", patching("1 / 0"))
        plugins = site.load()
        with caplog.at_level(logging.WARNING):
            assert arguments(plugins)["a"] == (1, "plugin tone")
            assert arguments(plugins)["a"] == (1, "plugin tone")
        (fault,) = plugins.report.faults
        assert fault.cause == (
            "customize_server_args raised ZeroDivisionError: division by zero (omni_other.py:7)"
        )
        assert caplog.text.count("ZeroDivisionError") == 1
        site.plugin("chip", patching("1 / 0"), claims={"platforms": ("cpu",)})
        with pytest.raises(HookError, match="plugin 'chip'"):
            arguments(site.load())


EDGE = Edge(source="talker", target="codec")
CANDIDATES = (TransportSpec(name="shm", target="a:A"), TransportSpec(name="ipc", target="b:B"))


def choosing(name: str | None) -> str:
    return f"@hookimpl\ndef choose_transport(edge, candidates): return {name!r}"


class TestChooseTransport:
    def test_nobody_has_to_choose(self, site):
        site.plugin("tone", choosing(None))
        assert site.load().choose_transport(EDGE, CANDIDATES, CPU) is None

    def test_the_first_in_order_of_name_that_has_a_choice_decides(self, site):
        site.plugin("c", choosing("shm"))
        site.plugin("b", choosing("ipc"))
        site.plugin("a", choosing(None))
        assert site.load().choose_transport(EDGE, CANDIDATES, CPU) == "ipc"

    def test_a_choice_that_is_no_candidate_is_refused(self, site):
        site.plugin("tone", choosing("pigeon"))
        with pytest.raises(HookError, match="'pigeon', which is no candidate for talker -> codec"):
            site.load().choose_transport(EDGE, CANDIDATES, CPU)


def context() -> StageContext:
    return StageContext(
        name="talker",
        device="cpu",
        server_args={},
        model=MODEL,
        platform=CPU,
        engine=None,
        report=lambda what, fraction=None: None,
        log=logging.getLogger("test"),
    )


class TestStageLife:
    def test_every_plugin_prepares_the_process_in_order_of_name(self, site, monkeypatch):
        monkeypatch.setenv("SEEN", "")
        for name in ("b", "a"):
            site.plugin(
                name,
                f"""
                import os
                @hookimpl
                def stage_starting(stage, context):
                    os.environ["SEEN"] += {name!r} + stage.name + context.name
                """,
            )
        site.load().stage_starting(STAGE, context(), owner="a", platform=CPU)
        import os

        assert os.environ["SEEN"] == "atalkertalkerbtalkertalker"

    def test_starting_is_fatal_for_the_owner_and_isolated_for_others(self, site):
        site.plugin("tone", "@hookimpl\ndef stage_starting(stage): raise OSError('no driver')")
        plugins = site.load()
        plugins.stage_starting(STAGE, context(), owner="another", platform=CPU)
        assert [f.plugin for f in plugins.report.faults] == ["tone"]
        with pytest.raises(HookError, match="no driver"):
            plugins.stage_starting(STAGE, context(), owner="tone", platform=CPU)

    def test_observers_are_told_and_isolated(self, site):
        site.plugin(
            "watch",
            """
            SEEN = []
            @hookimpl
            def stage_ready(stage): SEEN.append(stage.name)
            @hookimpl
            def stage_stopped(stage, reason): SEEN.append(reason)
            """,
        )
        site.plugin("bad", "@hookimpl\ndef stage_ready(stage): raise ValueError")
        plugins = site.load()
        plugins.stage_ready(STAGE)
        plugins.stage_stopped(STAGE, "killed")
        assert sys.modules["omni_watch"].SEEN == ["talker", "killed"]
        assert [f.plugin for f in plugins.report.faults] == ["bad"]


class TestRoutes:
    @pytest.fixture
    def plugins(self, site) -> Plugins:
        routed = "@hookimpl\ndef http_routes(context): return [context.models]"
        site.plugin("routed", routed)
        site.plugin("other", routed)
        site.plugin("bad", "@hookimpl\ndef http_routes(context): yield 1; raise ValueError('half')")
        return site.load()

    def test_none_is_added_unless_enabled(self, plugins):
        assert plugins.http_routes(RouteContext(models=("m",)), []) == ()
        assert plugins.http_routes(RouteContext(models=("m",)), ["routed"]) == (("m",),)

    def test_a_name_without_routes_is_refused(self, plugins):
        with pytest.raises(ConfigError, match="Did you mean 'routed'"):
            plugins.http_routes(RouteContext(models=()), ["routes"])

    def test_a_generator_that_fails_half_way_adds_nothing(self, plugins):
        assert plugins.http_routes(RouteContext(models=("m",)), ["bad", "other"]) == (("m",),)
        assert "http_routes raised ValueError: half" in plugins.report.faults[0].cause


def test_readiness_checks_come_with_their_plugin(site):
    check = "ReadinessCheck(name='disk', ok=True, detail='12 GiB')"
    site.plugin("disk", f"@hookimpl\ndef readiness_checks(): return [{check}]")
    site.plugin("odd", "@hookimpl\ndef readiness_checks(): return ['fine']")
    plugins = site.load()
    checks = plugins.readiness_checks()
    assert [check.detail for check in checks["disk"]] == ["12 GiB"]
    assert list(checks) == ["disk"]
    assert "returned among its items a str, expected ReadinessCheck" in (
        plugins.report.faults[0].cause
    )


def test_the_plugin_layer_is_one_name_away():
    import omni_host.plugins as layer

    assert {name for name in layer.__all__ if getattr(layer, name)} == set(layer.__all__)
    assert not hasattr(layer, "no_such_name")
    assert isinstance(layer, types.ModuleType)
