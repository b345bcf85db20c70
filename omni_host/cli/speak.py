"""`omni speak`: say a text into an audio file, without a server."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from omni_host.audio import Tempo
from omni_host.cli.audio_output import AudioWriter, audio_output, output_format
from omni_host.cli.logs import configure_logging
from omni_host.cli.options import invocation, shared_options
from omni_host.cli.pipelines import pipeline_of
from omni_host.cli.request_fields import field_values
from omni_host.cli.speech_task import SPEECH, speech_task
from omni_host.cli.status import Status
from omni_host.cli.terminations import ends_on_signals
from omni_host.errors import UsageError
from omni_host.graph import Task
from omni_host.planning import plan
from omni_host.runtime import Pipeline, Request
from omni_host.serve.speech_request import SpeechForm, SpeechOrder, no_audio

__all__ = ["speak"]


@click.command()
@click.argument("text", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="out.wav",
    show_default=True,
    help="Where to put the audio, in the format of the ending: wav, mp3, opus or ogg, aac, flac, "
    "pcm. A WAV stream goes to standard output with -.",
)
@click.option(
    "--model", metavar="MODEL", help="A folder, an alias or a hub name.  [default: default]"
)
@click.option("--voice", help="One of the model's voices.  [default: its first]")
@click.option("--instructions", help="How to speak, for models that can be told.")
@click.option(
    "--speed", type=float, help="0.25 to 4, at the same pitch; the model may have a narrower range."
)
@click.option("--seed", type=int, help="The same seed gives the same speech.")
@click.option(
    "--field",
    "fields",
    metavar="NAME=VALUE",
    multiple=True,
    help="A request field of the model's own (omni explain lists them); @FILE gives audio.",
)
@shared_options
def speak(
    text: str | None, output: str, model: str | None, fields: tuple[str, ...], **common: Any
) -> None:
    """Say TEXT into an audio file. TEXT is - or left out to read standard input.

    \b
    omni speak "Good morning."
    omni speak --speed 0.9 -o slow.wav "One thing at a time."
    omni speak -o - <story.txt | aplay
    """
    output_format(output)
    typed = invocation()
    typed.flag(("model", "reference"), model, "--model")
    settings = typed.settings()
    configure_logging(settings, typed.verbosity)
    given = {name: value for name, value in common.items() if value is not None}
    spoken = _standard_input() if text in {None, "-"} else text
    plugins = typed.plugins(settings)
    deployment = plan(settings.values.model.reference, settings, plugins)
    task = speech_task(deployment)
    asked = {**field_values(fields, task), **given, "model": deployment.name, "input": spoken}
    order = SpeechForm(deployment.name, task).read(asked)
    with audio_output(output, _sample_rate(task)) as audio:
        status = Status(plain=typed.verbosity > 0)
        pipeline = pipeline_of(deployment, plugins, settings)
        pace = asyncio.run(_speak(pipeline, task, order, audio, status))
    click.echo(f"{audio.name}: {audio.seconds:.2f} s of audio, {pace}", err=True)


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison] - `<&-`
        raise UsageError("There is no text.", hint='omni speak "Good morning."')
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"Standard input is no UTF-8 text: {error}.") from None


def _sample_rate(task: Task) -> int:
    rates = [output.sample_rate for output in task.outputs if output.modality == "audio"]
    if not rates or rates[0] is None:
        raise UsageError(f"The task {task.name} of this model gives no audio.")
    return rates[0]


async def _speak(
    pipeline: Pipeline, task: Task, order: SpeechOrder, audio: AudioWriter, status: Status
) -> str:
    """Returns how fast it was."""
    try:
        with ends_on_signals():
            started = time.perf_counter()
            await pipeline.start(status.loading)
            loaded = time.perf_counter() - started
            pace = await _write_speech(pipeline, task, order, audio, status)
            return f"{pace}, loaded in {loaded:.2f} s"
    finally:
        status.clear()
        await pipeline.stop(0)


async def _write_speech(
    pipeline: Pipeline, task: Task, order: SpeechOrder, audio: AudioWriter, status: Status
) -> str:
    first: float | None = None
    emitted = False
    tempo = Tempo(audio.sample_rate, order.tempo)
    began = time.perf_counter()
    async with pipeline.submit(_request(order)) as generation:
        async for chunk in generation:
            if chunk.modality != "audio":
                continue
            emitted = True
            if not chunk.data.size:
                continue
            first = first or time.perf_counter() - began
            # In a thread, since whoever reads the other end of a pipe may be slow.
            await asyncio.to_thread(_append, audio, tempo, chunk.data)
            status.draw(f"speaking  {audio.seconds:.1f} s")
    if first is None:
        raise no_audio(task, emitted=emitted)
    await asyncio.to_thread(audio.write, tempo.finish())
    factor = (time.perf_counter() - began) / audio.seconds
    return f"first audio after {first:.3f} s, real-time factor {factor:.3f}"


def _append(audio: AudioWriter, tempo: Tempo, samples: NDArray[np.float32]) -> None:
    audio.write(tempo.write(samples))


def _request(order: SpeechOrder) -> Request:
    return Request(
        id="speak",
        task=SPEECH,
        payload=order.payload,
        inputs=order.inputs,
        outputs=frozenset({"audio"}),
    )
