from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from omni_host.errors import WireError
from omni_host.graph import Batching, Edge, Output, RequestField, Task
from omni_host.offers import EngineSpec, ModelRef
from omni_host.runtime import boot
from omni_host.runtime.boot import Boot, pack_boot, read_boot
from tests.runtime.deployments import deploy, stage


def example() -> Boot:
    field = RequestField(name="mood", type="string", description="-", choices=("a", "b"))
    deployment = deploy(
        (
            stage("a", "Join", server_args={"n": [1, {"x": None}]}, batching=Batching(max_size=3)),
            stage("b", "Join"),
        ),
        (Edge(source="a", target="b", when=frozenset({"in:text", "in:audio"})),),
        (
            Task(
                name="t",
                entry=("a",),
                outputs=(Output(stage="b", modality="text"),),
                fields=(field,),
                honours=frozenset({"speed"}),
            ),
        ),
    )
    engine = EngineSpec(name="torch", target="x:Y", requires=("torch",))
    return Boot(
        deployment=replace(
            deployment,
            model=ModelRef(reference="toy", path=Path("/m"), config={"a": {"b": [1.5, "c"]}}),
            stages=tuple(replace(plan, engine=engine) for plan in deployment.stages),
        ),
        process="a",
        endpoint="a.1",
        address="ipc:///x/a.1",
        host="ipc:///x/host",
        folder="/x",
        run="abc",
        result_credits=8,
        log_level=20,
    )


def test_it_arrives_as_it_was_sent():
    assert read_boot(io.BytesIO(pack_boot(example())).read) == example()


def test_it_may_arrive_in_pieces():
    source = io.BytesIO(pack_boot(example()))
    assert read_boot(lambda count: source.read(min(count, 7))) == example()


def test_another_wire_version_is_refused(monkeypatch):
    data = pack_boot(example())
    monkeypatch.setattr(boot, "WIRE_VERSION", 999)
    with pytest.raises(WireError, match="environment's omni-host 999"):
        read_boot(io.BytesIO(data).read)


def test_a_truncated_one_is_refused():
    data = pack_boot(example())
    with pytest.raises(WireError, match="ended before"):
        read_boot(io.BytesIO(data[:-1]).read)


def test_arguments_that_are_not_plain_data_are_refused():
    made = example()
    odd = replace(made.deployment, model=ModelRef(reference="toy", config={"a": object()}))
    with pytest.raises(TypeError, match="object is not plain data"):
        pack_boot(replace(made, deployment=odd))
