from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omni_host.errors import GraphError
from omni_host.graph import Batching, Edge, Output, StageGraph, StageSpec, Task
from omni_host.graph_checks import validate

A, B, C = (StageSpec(name=name, target="toy.stages:Stage") for name in "abc")
SPEECH = Output(stage="c", modality="audio", sample_rate=24000)
TASK = Task(name="speech", entry=("a",), outputs=(SPEECH,))
GRAPH = StageGraph(
    stages=(A, B, C),
    edges=(Edge(source="a", target="b"), Edge(source="b", target="c", kind="stream")),
    tasks=(TASK,),
)


def with_stage(**fields: Any) -> StageGraph:
    return replace(GRAPH, stages=(A, replace(B, **fields), C))


def with_edge(**fields: Any) -> StageGraph:
    return replace(GRAPH, edges=(*GRAPH.edges, Edge(**fields)))


def with_task(**fields: Any) -> StageGraph:
    return replace(GRAPH, tasks=(replace(TASK, **fields),))


def test_a_sound_graph_passes():
    validate(GRAPH, {"inline", "shm"})


def test_payload_and_stream_may_lead_the_same_way():
    validate(with_edge(source="a", target="b", kind="stream", transport="shm"), {"shm"})


FAULTS = {
    "no stages": (replace(GRAPH, stages=()), "no stages"),
    "no task": (replace(GRAPH, tasks=()), "no task"),
    "duplicate stage": (replace(GRAPH, stages=(A, A, B, C)), "2 of stage 'a'"),
    "duplicate task": (replace(GRAPH, tasks=(TASK, TASK)), "2 of task 'speech'"),
    "duplicate edge": (with_edge(source="a", target="b"), "2 of edge 'a -> b .payload.'"),
    "stage name": (
        replace(GRAPH, stages=(*GRAPH.stages, replace(A, name="no name"))),
        "'no name' must be letters",
    ),
    "reserved name": (
        replace(GRAPH, stages=(*GRAPH.stages, replace(A, name="client"))),
        "none of client, host, request",
    ),
    "process name": (with_stage(process="a/b"), "Stage 'b': process 'a/b'"),
    "target": (with_stage(target="toy.stages"), "Stage 'b': target 'toy.stages'"),
    "max_concurrent": (with_stage(max_concurrent=0), "Stage 'b': max_concurrent"),
    "batch size": (with_stage(batching=Batching(max_size=0)), "Stage 'b': batching.max_size"),
    "batch wait": (with_stage(batching=Batching(max_wait_s=-1)), "Stage 'b': batching.max_wait_s"),
    "endless wait": (
        with_stage(batching=Batching(max_wait_s=float("nan"))),
        "Stage 'b': batching.max_wait_s",
    ),
    "dangling source": (with_edge(source="x", target="b"), "x -> b .payload. dangles"),
    "dangling target": (with_edge(source="a", target="x"), "there is no stage 'x'"),
    "kind": (
        with_edge(source="a", target="c", kind="pipe"),
        "a -> c .pipe.: kind is a str, 'pipe'; expected 'payload' or 'stream'",
    ),
    "transport": (
        with_edge(source="a", target="c", transport="pigeon"),
        "a -> c .payload.: there is no transport 'pigeon'",
    ),
    "tag": (with_edge(source="a", target="c", when=frozenset({"audio"})), "'audio' is not a tag"),
    "credits": (with_edge(source="a", target="c", credits=0), "a -> c .payload.: credits"),
    "cycle": (with_edge(source="c", target="a"), "has a cycle: a -> b -> c -> a"),
    "loop": (with_edge(source="b", target="b"), "has a cycle: b -> b"),
    "no entry": (with_task(entry=()), "Task 'speech' has no entry"),
    "unknown entry": (with_task(entry=("x",)), "its entry 'x' is no stage"),
    "double entry": (with_task(entry=("a", "a")), "task 'speech' entry 'a'"),
    "no output": (with_task(outputs=()), "Task 'speech' has no output"),
    "unknown output": (with_task(outputs=(replace(SPEECH, stage="x"),)), "its output 'x'"),
    "double output": (with_task(outputs=(SPEECH, SPEECH)), "task 'speech' output 'c'"),
    "modality": (with_task(outputs=(replace(SPEECH, modality=""),)), "'c' has no modality"),
    "sample rate": (with_task(outputs=(replace(SPEECH, sample_rate=None),)), "sample rate"),
    "no way": (with_task(entry=("b", "c"), outputs=(replace(SPEECH, stage="a"),)), "no way leads"),
    "no terminal": (
        replace(GRAPH, edges=GRAPH.edges[:1], tasks=(with_task().tasks[0],)),
        "no way leads to its output 'c'",
    ),
    "terminal without output": (
        replace(GRAPH, tasks=(replace(TASK, outputs=(replace(SPEECH, stage="b"),)),)),
        "Stage 'c' is a terminal without an output type",
    ),
    "unreachable": (with_task(entry=("b",)), "Stage 'a' cannot be reached"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_by_name(fault):
    graph, sentence = FAULTS[fault]
    with pytest.raises(GraphError, match=sentence):
        validate(graph, {"inline", "shm"})
