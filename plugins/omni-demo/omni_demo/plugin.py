"""What the host asks of this plugin: which models it serves, and with which stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omni_demo import weights
from omni_demo.request import MAX_SEED, VOICES
from omni_host.api import (
    Claim,
    Edge,
    ModelRef,
    Output,
    PlatformProbe,
    PluginInfo,
    ReadinessCheck,
    RequestField,
    StageGraph,
    StageSpec,
    Task,
    errors,
    hookimpl,
)

PLUGIN = PluginInfo(
    name="demo",
    summary="English demo voice on any CPU, no torch; none of the Qwen or Fish families",
)

ALIASES = ("demo", "default")
SAMPLE_RATE = 24_000
MODEL_FOLDER = Path(__file__).parent / "model"


@hookimpl
def claim_model(model: ModelRef) -> Claim | None:
    if model.reference in ALIASES:
        return Claim(path=str(MODEL_FOLDER))
    return None


@hookimpl
def build_stages(
    model: ModelRef, options: Mapping[str, Any], platform: PlatformProbe
) -> StageGraph:
    for option in options:
        raise errors.ConfigError(f"The demo voice has no option {option!r}.", field=option)
    return StageGraph(
        stages=(
            StageSpec(name="text", target="omni_demo.text:TextStage", device="cpu"),
            StageSpec(
                name="acoustic",
                target="omni_demo.acoustic:AcousticStage",
                device="cpu",
                server_args={"threads": 1},
            ),
            StageSpec(name="vocoder", target="omni_demo.vocoder:VocoderStage", device="cpu"),
        ),
        edges=(
            Edge(source="text", target="acoustic", kind="stream"),
            # A sentence of frames takes about 1 MB for each second of speech.
            Edge(source="acoustic", target="vocoder", kind="stream", credits=1),
        ),
        tasks=(_speech(),),
    )


@hookimpl
def readiness_checks() -> Iterable[ReadinessCheck]:
    try:
        weights.check(weights.ALL_FILES, stage="demo")
    except errors.StageStartError as fault:
        yield ReadinessCheck(name="demo voice", ok=False, detail=fault.message, hint=fault.hint)
    else:
        detail = f"{weights.PACKAGE} {weights.VERSION}, {len(weights.ALL_FILES)} files unchanged"
        yield ReadinessCheck(name="demo voice", ok=True, detail=detail)


def _speech() -> Task:
    return Task(
        name="speech",
        # The request goes to all three: each reads what it needs (text, speed, seed).
        entry=("text", "acoustic", "vocoder"),
        outputs=(Output(stage="vocoder", modality="audio", sample_rate=SAMPLE_RATE),),
        voices=VOICES,
        honours=frozenset({"speed"}),
        fields=(
            RequestField(
                name="seed",
                type="integer",
                description="seed of the breath noise; the same seed gives the same samples",
                default=0,
                minimum=0,
                maximum=MAX_SEED,
            ),
        ),
        max_characters=100_000,
    )
