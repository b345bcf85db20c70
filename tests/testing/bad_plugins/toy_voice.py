"""A plugin that keeps every rule, and the parts that those which break one are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omni_host.api import (
    Claim,
    Edge,
    ModelRef,
    Output,
    PlatformProbe,
    PluginInfo,
    RequestField,
    StageGraph,
    StageSpec,
    Task,
    hookimpl,
)

SAMPLE_RATE = 8000


def claim_of(name: str):
    """The `claim_model` of a plugin whose alias is `name`."""

    @hookimpl
    def claim_model(model: ModelRef) -> Claim | None:
        folder = Path(__file__).parent / "models" / name
        return Claim(path=str(folder)) if model.reference == name else None

    return claim_model


def graph_of(options: Mapping[str, Any], **server_args: Any) -> StageGraph:
    """Words, then tones; the options `words` and `tones` name other stages."""
    return StageGraph(
        stages=(
            StageSpec(
                name="words",
                target=options.get("words", "toy_stages:Words"),
                server_args=server_args,
            ),
            StageSpec(name="tones", target=options.get("tones", "toy_stages:Tones")),
        ),
        edges=(Edge(source="words", target="tones"),),
        tasks=(task_of(),),
    )


def task_of(*fields: RequestField) -> Task:
    return Task(
        name="speech",
        entry=("words",),
        outputs=(Output(stage="tones", modality="audio", sample_rate=SAMPLE_RATE),),
        voices=("low", "high"),
        honours=frozenset({"speed", "instructions"}),
        fields=(
            RequestField(name="seed", type="integer", description="moves the phase", default=0),
            RequestField(
                name="vibrato",
                type="number",
                description="depth",
                default=0.0,
                minimum=0.0,
                maximum=1.0,
            ),
            RequestField(
                name="mood",
                type="string",
                description="how it feels",
                default="calm",
                choices=("calm", "merry"),
            ),
            *fields,
        ),
    )


PLUGIN = PluginInfo(name="toy_voice", summary="a tone for each word")
claim_model = claim_of("toy_voice")


@hookimpl
def build_stages(
    model: ModelRef, options: Mapping[str, Any], platform: PlatformProbe
) -> StageGraph:
    return graph_of(options)
