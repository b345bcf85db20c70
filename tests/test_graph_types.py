"""A value of another type is refused by object and field, and told how it was meant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omni_host.errors import GraphError
from omni_host.graph import Edge, Output, RequestField, StageGraph, StageSpec, Task
from omni_host.graph_checks import validate

STAGE = StageSpec(name="beeper", target="toy:Beeper")
SPEECH = Output(stage="beeper", modality="audio", sample_rate=24000)
TASK = Task(name="speech", entry=("beeper",), outputs=(SPEECH,))


def graph(stage=STAGE, **task):
    return StageGraph(stages=(stage,), tasks=(replace(TASK, **task),))


def staged(**changes):
    return graph(replace(STAGE, **changes))


def with_field(**changes):
    whole = {"name": "pitch", "type": "number", "description": "in Hz", **changes}
    return graph(fields=(RequestField(**whole),))


class Beeper: ...


SLIPS = {
    "a voice alone": (
        graph(voices="beep"),
        "Task 'speech': voices is a str, 'beep'; expected a tuple of str: ('beep',).",
    ),
    "an entry alone": (
        graph(entry="beeper"),
        "Task 'speech': entry is a str, 'beeper'; expected a tuple of str: ('beeper',).",
    ),
    "a list of voices": (
        graph(voices=["a", "b"]),
        "Task 'speech': voices is a list, ['a', 'b']; expected a tuple of str: ('a', 'b').",
    ),
    "a stage alone": (
        StageGraph(stages=STAGE, tasks=(TASK,)),
        (
            "The graph: stages is a StageSpec, StageSpec(...); expected a tuple of StageSpec: "
            "(StageSpec(...),)."
        ),
    ),
    "a class as target": (
        staged(target=Beeper),
        f"Stage 'beeper': target is the class Beeper; expected a str: '{__name__}:Beeper'.",
    ),
    "a rate as text": (
        graph(outputs=(replace(SPEECH, sample_rate="24k"),)),
        "Task 'speech': output 'beeper': sample_rate is a str, '24k'; expected an int or None.",
    ),
    "a rate that is true": (
        graph(outputs=(replace(SPEECH, sample_rate=True),)),
        "sample_rate is a bool, True; expected an int or None.",
    ),
    "a number as batching": (
        staged(batching=4),
        "Stage 'beeper': batching is an int, 4; expected a Batching.",
    ),
    "another name of a type": (
        with_field(type="float"),
        (
            "Task 'speech': field 'pitch': type is a str, 'float'; expected 'string' or "
            "'integer' or 'number' or 'boolean' or 'audio'."
        ),
    ),
    "a set": (
        graph(honours={"speed"}),
        (
            "Task 'speech': honours is a set, {'speed'}; expected a frozenset of str: "
            "frozenset({'speed'})."
        ),
    ),
    "a number in the environment": (
        staged(env={"A": 1}),
        "Stage 'beeper': env.A is an int, 1; expected a str: '1'.",
    ),
    "an array in the arguments": (
        staged(server_args={"deep": [{"table": np.zeros(2)}]}),
        (
            "Stage 'beeper': server_args.deep[0].table is a ndarray, array([0., 0.]); expected "
            "plain data (None, bool, int, float, str, and lists and mappings of them)."
        ),
    ),
    "a key that is no name": (
        staged(server_args={1: 2}),
        "Stage 'beeper': a key of server_args is an int, 1; expected a str: '1'.",
    ),
    "an edge's credits": (
        replace(graph(), edges=(Edge(source="beeper", target="b", credits="8"),)),
        "Edge beeper -> b (payload): credits is a str, '8'; expected an int.",
    ),
    "a name that is none": (
        staged(name=None),
        "The graph: stages[0].name is None; expected a str.",
    ),
    "a misspelt honour": (graph(honours=frozenset({"sped"})), "Did you mean 'speed'?"),
    "a default of another type": (
        with_field(type="integer", default="a"),
        "Task 'speech': field 'pitch' is of type integer, but its default is 'a'.",
    ),
    "bounds the wrong way round": (
        with_field(minimum=2, maximum=1),
        "Task 'speech': field 'pitch' has minimum 2 above maximum 1.",
    ),
    "a default out of bounds": (with_field(default=3, maximum=1), "outside its minimum"),
    "two fields of a name": (
        graph(fields=with_field().tasks[0].fields * 2),
        "There are 2 of task 'speech' field 'pitch'.",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_what_was_meant(slip):
    faulty, sentence = SLIPS[slip]
    with pytest.raises(GraphError) as caught:
        validate(faulty, {"shm"})
    assert sentence in caught.value.message


def test_everything_declared_passes():
    stage = replace(STAGE, server_args={"a": [1, 2.0, None, {"b": (True, "x")}]}, env={"A": "1"})
    fields = (RequestField(name="f", type="number", description="", default=1, minimum=0),)
    validate(graph(stage, fields=fields, honours=frozenset({"speed"})), {"shm"})
