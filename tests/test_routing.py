from __future__ import annotations

import pytest

from omni_host.errors import InvalidRequestError
from omni_host.graph import Edge, Output, StageGraph, StageSpec, Task
from omni_host.routing import Router

OMNI = StageGraph(
    stages=tuple(
        StageSpec(name=name, target="toy:Stage")
        for name in ("prepare", "vision", "audio", "thinker", "talker", "codec")
    ),
    edges=(
        Edge(source="prepare", target="vision", when=frozenset({"in:image", "in:video"})),
        Edge(source="prepare", target="audio", when=frozenset({"in:audio"})),
        Edge(source="prepare", target="thinker"),
        Edge(source="vision", target="thinker"),
        Edge(source="audio", target="thinker"),
        Edge(source="thinker", target="talker", kind="stream", when=frozenset({"out:audio"})),
        Edge(source="talker", target="codec", kind="stream", credits=3),
    ),
    tasks=(
        Task(
            name="chat",
            entry=("prepare",),
            outputs=(
                Output(stage="thinker", modality="text"),
                Output(stage="codec", modality="audio", sample_rate=24000),
            ),
        ),
        Task(
            name="mute",
            entry=("codec",),
            outputs=(Output(stage="codec", modality="audio", sample_rate=24000),),
        ),
    ),
)


def route(task: str = "chat", *tags: str):
    return Router(OMNI).route(task, frozenset(tags))


def test_only_stages_on_the_way_to_a_selected_output_take_part():
    assert list(route("chat", "in:text", "out:text").stages) == ["prepare", "thinker"]


def test_tags_open_the_edges_that_name_one_of_them():
    found = route("chat", "in:video", "out:text", "out:audio")
    assert list(found.stages) == ["prepare", "vision", "thinker", "talker", "codec"]


def test_a_stage_waits_for_the_payloads_of_active_stages_only():
    assert route("chat", "in:audio", "out:text").stages["thinker"].payloads == ("prepare", "audio")
    assert route("chat", "in:text", "out:text").stages["thinker"].payloads == ("prepare",)


def test_entries_get_the_request():
    assert route("chat", "out:text").stages["prepare"].payloads == ("request",)


def test_streams_carry_their_credits():
    found = route("chat", "out:audio").stages
    assert found["codec"].streams == {"talker": 3}
    assert found["talker"].stream_targets == ("codec",)
    assert found["thinker"].payload_targets == ()


def test_a_stage_whose_output_was_not_selected_is_no_terminal():
    found = route("chat", "out:audio").stages
    assert found["thinker"].output is None
    assert found["codec"].output is not None


def test_without_output_tags_every_output_is_selected():
    # The talker is reached over an edge that wants `out:audio`, so nothing leads there.
    with pytest.raises(InvalidRequestError, match="yields no audio"):
        route("chat", "in:text")
    assert [output.stage for output in route("mute").outputs] == ["codec"]


def test_an_unknown_modality_is_refused():
    with pytest.raises(InvalidRequestError, match="does not yield video") as caught:
        route("chat", "out:video")
    assert caught.value.field == "modalities"


def test_an_unknown_task_is_refused_with_those_there_are():
    with pytest.raises(InvalidRequestError, match="it has: chat, mute"):
        route("sing")


def test_routes_are_remembered():
    router = Router(OMNI)
    tags = frozenset({"out:text"})
    assert router.route("chat", tags) is router.route("chat", tags)
