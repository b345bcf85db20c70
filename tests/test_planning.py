"""A deployment is planned from what the plugins say and what the operator decides."""

import sys
from dataclasses import dataclass, field, replace

import pytest

from omni_host.config.settings import validate
from omni_host.config.sources import gather
from omni_host.errors import ConfigError, GraphError, PlatformError, PluginError
from omni_host.graph import Batching, Edge, Output, StageGraph, StageSpec, Task
from omni_host.offers import (
    EngineSpec,
    LauncherSpec,
    ModelRef,
    PlatformProbe,
    Sourced,
    TransportSpec,
)
from omni_host.planning import plan
from omni_host.plugins.lock import Lock


def stage(name, **changes):
    return StageSpec(name=name, target=f"toy.stages:{name}", **changes)


GRAPH = StageGraph(
    stages=(
        stage("front", server_args={"size": 1}, env={"THREADS": "1"}),
        stage("talker", process="voice", engine="auto", batching=Batching(max_size=4)),
        stage("codec", process="voice"),
    ),
    edges=(
        Edge(source="front", target="talker"),
        Edge(source="talker", target="codec", kind="stream", credits=4),
    ),
    tasks=(
        Task(
            name="speech",
            entry=("front",),
            outputs=(Output(stage="codec", modality="audio", sample_rate=24000),),
        ),
    ),
)
CPU = PlatformProbe(name="cpu", devices=("cpu",), priority=0)
CUDA = PlatformProbe(name="cuda", devices=("cuda:0", "cuda:1"), priority=10)


@dataclass(kw_only=True)
class FakePlugins:
    """What `plan` asks of the plugin layer."""

    graph: StageGraph = GRAPH
    probe: PlatformProbe = CPU
    path: object = None
    aliases: tuple[str, ...] = ()
    chosen: str | None = None
    transport_names: tuple[str, ...] = ("inline", "shm", "gpu-link")
    asked: dict = field(default_factory=dict)

    def resolve_model(self, reference, revision=None, *, owner=None, weights=True):
        self.asked["model"] = (reference, revision, owner)
        ref = ModelRef(reference=reference, path=self.path, revision=revision)
        return Resolved(model=ref, owner="toy", distribution="omni-toy", aliases=self.aliases)

    def platform(self, name="auto"):
        self.asked["platform"] = name
        return self.probe

    def build_stages(self, owner, model, options, platform):
        self.asked["options"] = dict(options)
        return self.graph

    def server_args(self, owner, stage, platform, operator):
        own = {
            key: Sourced(value=value, source=f"plugin {owner}")
            for key, value in stage.server_args.items()
        }
        return {**own, **operator}

    def transports(self):
        kinds = {"gpu-link": ("cuda",)}
        return {
            name: TransportSpec(
                name=name, target="toy:transport", device_types=kinds.get(name, ("cpu",))
            )
            for name in self.transport_names
        }

    def choose_transport(self, edge, candidates, platform):
        self.asked["candidates"] = tuple(c.name for c in candidates)
        return self.chosen

    def engines(self):
        return {"torch": EngineSpec(name="torch", target="toy:engine")}

    def launchers(self):
        return {"local": LauncherSpec(name="local", target="toy:launcher")}

    def lock(self):
        return Lock(python=sys.executable, plugins=())


@dataclass(frozen=True, kw_only=True)
class Resolved:
    model: ModelRef
    owner: str
    distribution: str
    aliases: tuple[str, ...] = ()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def deploy(*assignments, reference="toy", environment=None, **fake):
    settings = validate(gather(environment=environment or {}, assignments=assignments))
    return plan(reference, settings, FakePlugins(**fake))


def processes(deployment):
    return {process.name: process.stages for process in deployment.processes}


def transports(deployment):
    return [plan.transport for plan in deployment.edges]


def stage_of(deployment, name):
    return next(s for s in deployment.stages if s.spec.name == name)


def test_the_graph_says_which_stages_share_a_process():
    deployment = deploy()
    assert processes(deployment) == {"front": ("front",), "voice": ("talker", "codec")}
    assert transports(deployment) == ["shm", "inline"]
    assert [spec.name for spec in deployment.transports] == ["inline", "shm"]
    assert {s.spec.process for s in deployment.stages} == {"front", "voice"}
    assert deployment.graph.stages == tuple(s.spec for s in deployment.stages)


def test_all_stages_can_be_fused():
    deployment = deploy("placement=fused")
    assert processes(deployment) == {"stages": ("front", "talker", "codec")}
    assert transports(deployment) == ["inline", "inline"]


def test_all_stages_can_be_separate():
    deployment = deploy("placement=separate")
    assert processes(deployment) == {n: (n,) for n in ("front", "talker", "codec")}
    assert transports(deployment) == ["shm", "shm"]


def test_a_process_that_is_named_goes_before_the_placement():
    deployment = deploy("placement=fused", "stages.front.process=own")
    assert processes(deployment) == {"own": ("front",), "stages": ("talker", "codec")}


def test_overrides_reach_the_stage_and_the_edge():
    deployment = deploy(
        "stages.talker.batching.max_wait_seconds=0",
        "stages.talker.max_concurrent=2",
        "stages.codec.env.THREADS=2",
        "edges.talker->codec.credits=1",
    )
    talker = stage_of(deployment, "talker").spec
    assert talker.batching == Batching(max_size=4, max_wait_s=0)
    assert talker.max_concurrent == 2
    assert deployment.processes[1].env == {"THREADS": "2"}
    assert [plan.edge.credits for plan in deployment.edges] == [8, 1]


def test_an_engine_is_refused_where_the_stage_takes_none():
    with pytest.raises(ConfigError, match="the stage codec takes no engine") as caught:
        deploy("stages.codec.engine=torch")
    assert caught.value.field == "stages.codec.engine"
    assert "--set stages.codec.engine" in caught.value.message
    assert stage_of(deploy("stages.talker.engine=torch"), "talker").engine.name == "torch"


def test_server_arguments_keep_their_sources():
    deployment = deploy("stages.front.server_args.rate=2", "stages.front.server_args.deep={x=1}")
    front = stage_of(deployment, "front")
    assert front.server_args == {
        "size": Sourced(value=1, source="plugin toy"),
        "rate": Sourced(value=2, source="--set stages.front.server_args.rate"),
        "deep": Sourced(value={"x": 1}, source="--set stages.front.server_args.deep"),
    }
    assert front.spec.server_args == {"size": 1, "rate": 2, "deep": {"x": 1}}


def test_what_the_operator_says_of_the_model_reaches_the_plugins():
    fake = FakePlugins()
    settings = validate(
        gather(
            environment={},
            assignments=[
                "model.revision=main",
                "model.owner=toy",
                "model.depth=3",
                "platform.name=cuda",
            ],
        )
    )
    plan("toy", settings, fake)
    assert fake.asked["model"] == ("toy", "main", "toy")
    assert fake.asked["options"] == {"depth": 3}
    assert fake.asked["platform"] == "cuda"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stages.tolker.device=cpu", r"stages\.tolker \(from --set .*Did you mean 'talker'"),
        ("edges.talker->front.credits=1", r'edges\."talker->front" .* no part of this model'),
        ("edges.front->talker.transport=smh", r"no transport 'smh' .*Did you mean 'shm'"),
        ("transports.smh.idle_s=1", r"no transport 'smh' .*Did you mean 'shm'"),
    ],
)
def test_a_name_that_the_graph_has_not_is_an_error_that_tells_what_was_meant(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        deploy(text)


def test_an_edge_takes_the_transport_it_is_told():
    assert transports(deploy("edges.front->talker.transport=inline")) == ["inline", "inline"]


def test_a_transport_gets_its_own_settings():
    deployment = deploy("transports.shm.limit_bytes=1048576", "transports.shm.segments=named")
    assert deployment.transport_settings == {"shm": {"limit_bytes": 1_048_576, "segments": "named"}}


def test_plugins_choose_among_transports_that_carry_the_memory():
    fake = FakePlugins(probe=CUDA, chosen="gpu-link")
    settings = validate(gather(environment={}))
    deployment = plan("toy", settings, fake)
    assert fake.asked["candidates"] == ("gpu-link", "shm")
    assert transports(deployment) == ["gpu-link", "inline"]

    on_cpu = FakePlugins()
    plan("toy", settings, on_cpu)
    assert on_cpu.asked["candidates"] == ("shm",)


def test_without_shm_and_a_choice_there_is_no_way_between_processes():
    with pytest.raises(PluginError, match="No transport for the edge front->talker"):
        deploy(transport_names=("inline",))


def test_devices_come_from_the_platform_unless_named():
    deployment = deploy("stages.codec.device=cpu", "stages.talker.device=cuda:1", probe=CUDA)
    assert [s.device for s in deployment.stages] == ["cuda:0", "cuda:1", "cpu"]
    assert [s.spec.device for s in deployment.stages] == ["cuda:0", "cuda:1", "cpu"]


def test_a_kind_of_device_is_its_first_one():
    assert stage_of(deploy("stages.codec.device=cuda", probe=CUDA), "codec").device == "cuda:0"


def test_a_device_that_is_not_there_is_an_error_that_names_the_stage_and_what_is():
    with pytest.raises(PlatformError, match=r"talker wants device cuda:0; platform cpu has cpu"):
        deploy("stages.talker.device=cuda:0")


def test_the_engine_may_be_left_to_the_platform_or_named():
    assert stage_of(deploy(), "talker").engine == EngineSpec(name="torch", target="toy:engine")
    assert stage_of(deploy(), "talker").spec.engine == "torch"
    assert stage_of(deploy(), "codec").engine is None


def test_an_engine_that_nobody_offers_is_an_error_that_names_those_installed():
    with pytest.raises(PluginError, match=r"engine 'torhc'.*Did you mean 'torch'") as caught:
        deploy("stages.talker.engine=torhc")
    assert caught.value.field == "stages.talker.engine"
    assert "Installed: torch" in caught.value.hint


def test_a_launcher_that_nobody_offers_is_an_error_that_names_those_installed():
    with pytest.raises(PluginError, match="launcher 'ray'") as caught:
        deploy("launcher.name=ray")
    assert "Installed: local" in caught.value.hint


def test_stages_of_one_process_must_agree_on_a_variable():
    with pytest.raises(ConfigError, match=r"front and codec share process stages") as caught:
        deploy("placement=fused", "stages.codec.env.THREADS=2")
    assert "'1' (from the graph)" in caught.value.message
    assert "'2' (from --set stages.codec.env.THREADS)" in caught.value.message
    assert caught.value.field == "stages.codec.env.THREADS"


def test_stages_of_one_process_must_agree_on_the_interpreter(tmp_path):
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    with pytest.raises(ConfigError, match=r"talker and codec share process voice .* python"):
        deploy(f"stages.codec.python={other}")
    alone = deploy(f"stages.front.python={other}")
    assert [p.python for p in alone.processes] == [str(other), sys.executable]


def test_an_interpreter_must_be_there():
    with pytest.raises(ConfigError, match=r"stages\.front\.python = '/no/python'"):
        deploy("stages.front.python=/no/python")


def test_a_graph_that_cannot_run_is_refused():
    dangling = replace(GRAPH, edges=(*GRAPH.edges, Edge(source="codec", target="nowhere")))
    with pytest.raises(GraphError, match="nowhere"):
        deploy(graph=dangling)


def test_a_model_is_served_by_the_name_that_was_typed_or_that_of_its_folder(tmp_path):
    folder = tmp_path / "voices"
    folder.mkdir()
    assert deploy().name == "toy"
    assert deploy(path=folder).name == "toy"
    assert deploy(reference="./voices", path=folder).name == "voices"
    assert deploy("model.name=mine", reference="./voices", path=folder).name == "mine"


def test_aliases_are_the_other_names_of_the_model():
    assert deploy(aliases=("default", "toy")).aliases == ("default",)
    assert deploy("model.name=mine", aliases=("default", "toy")).aliases == ("default", "toy")


def test_the_same_inputs_give_the_same_deployment():
    assert deploy("placement=separate") == deploy("placement=separate")
