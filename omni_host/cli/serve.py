"""`omni serve`: a model behind an OpenAI-compatible API, until it is stopped."""

from __future__ import annotations

import asyncio
import json
import shlex

import click

from omni_host.cli.logs import configure_logging
from omni_host.cli.options import invocation, model_argument, shared_options
from omni_host.cli.pipelines import pipeline_of
from omni_host.cli.speech_task import speech_task
from omni_host.cli.status import Status
from omni_host.config.settings import Settings
from omni_host.deployment import Deployment
from omni_host.planning import plan
from omni_host.plugins import Plugins
from omni_host.serve import Metrics, ServeOptions, Server, create_app

__all__ = ["serve"]


@click.command()
@model_argument
@click.option("--host", metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="0 takes a free one.  [default: 8000]")
@shared_options
def serve(host: str | None, port: int | None) -> None:
    """Serve MODEL behind an OpenAI-compatible API, until Ctrl-C or SIGTERM.

    MODEL is a folder, an alias such as demo, or a hub name; left out, it is model.reference
    of the configuration, or else the built-in voice. The first Ctrl-C lets running requests
    end, a second one does not wait.

    \b
    omni serve
    omni serve demo --port 9000
    omni serve ./my-model --set limits.max_running=8 --set placement=fused
    """
    typed = invocation()
    typed.flag(("server", "host"), host, "--host")
    typed.flag(("server", "port"), port, "--port")
    settings = typed.settings()
    configure_logging(settings, typed.verbosity)
    plugins = typed.plugins(settings)
    deployment = plan(settings.values.model.reference, settings, plugins)
    speech_task(deployment)
    asyncio.run(_serve(deployment, plugins, settings))


async def _serve(deployment: Deployment, plugins: Plugins, settings: Settings) -> None:
    options = _options(settings)
    metrics = Metrics()
    pipeline = pipeline_of(deployment, plugins, settings, metrics)
    app = create_app(pipeline, deployment, options, metrics=metrics, plugins=plugins)
    status = Status(plain=True)
    drain = f"requests that run have {options.drain_s:g} s (Ctrl-C again: none)"
    server = Server(
        app,
        pipeline,
        options,
        progress=status.loading,
        on_ready=lambda url: status.say(_welcome(url, deployment)),
        on_draining=lambda: status.say(f"stopping: {drain}"),
    )
    try:
        await server.run()
    finally:
        status.clear()


def _options(settings: Settings) -> ServeOptions:
    server = settings.values.server
    return ServeOptions(
        host=server.host,
        port=server.port,
        drain_s=server.drain_seconds,
        max_body_bytes=server.max_body_bytes,
        max_whole_bytes=server.max_whole_bytes,
        stall_timeout_s=server.stall_seconds,
        routes=settings.values.plugins.routes,
    )


def _welcome(url: str, deployment: Deployment) -> str:
    body = json.dumps({"model": deployment.name, "input": "Good morning."}, ensure_ascii=False)
    return (
        f"ready: {url} serves {deployment.name}\n"
        f"try: curl {url}/v1/audio/speech -H 'Content-Type: application/json' "
        f"-d {shlex.quote(body)} -o out.mp3"
    )
