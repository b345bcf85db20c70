"""The API as an ASGI application."""

from __future__ import annotations

from fastapi import FastAPI

import omni_host
from omni_host.deployment import Deployment
from omni_host.offers import RouteContext
from omni_host.plugins import Plugins
from omni_host.runtime import Pipeline
from omni_host.serve.access import AccessMiddleware
from omni_host.serve.errors import handle_errors
from omni_host.serve.health import health_router
from omni_host.serve.metrics import Metrics, metrics_router
from omni_host.serve.models import models_router
from omni_host.serve.options import ServeOptions
from omni_host.serve.speech import speech_router

__all__ = ["create_app"]


def create_app(
    pipeline: Pipeline,
    deployment: Deployment,
    options: ServeOptions,
    *,
    metrics: Metrics | None = None,
    plugins: Plugins | None = None,
) -> FastAPI:
    """The OpenAI-compatible API of a pipeline, which need not have started yet.

    Args:
        pipeline: answers the requests; starting and stopping it is up to the caller.
        deployment: the model's name, owner and tasks.
        options: limits, and the plugins whose routes are served.
        metrics: what observes `pipeline`; without one `/metrics` lacks the stages.
        plugins: needed only for `options.routes`.
    """
    metrics = metrics or Metrics()
    metrics.watch(pipeline)
    app = FastAPI(
        title="omni-host",
        version=omni_host.__version__,
        summary=f"OpenAI-compatible API of {deployment.name}",
        redirect_slashes=False,
    )
    app.add_middleware(AccessMiddleware, metrics=metrics, max_body_bytes=options.max_body_bytes)
    handle_errors(app)
    for task in deployment.graph.tasks:
        if task.name == "speech":
            app.include_router(speech_router(pipeline, deployment, task, metrics, options))
    app.include_router(models_router(deployment))
    app.include_router(health_router(pipeline))
    app.include_router(metrics_router(metrics))
    if plugins is not None and options.routes:
        context = RouteContext(models=(deployment.name,))
        app.router.routes.extend(plugins.http_routes(context, options.routes))
    return app
