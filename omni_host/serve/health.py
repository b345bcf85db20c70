"""`GET /health` says that the process is alive, `GET /ready` that it can serve."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from omni_host.runtime import Pipeline

__all__ = ["health_router"]


class StageHealth(BaseModel):
    """One stage: its process, and whether that is `starting`, `ready`, ..."""

    stage: str
    process: str
    pid: int | None
    state: str


class Health(BaseModel):
    """`state` of the whole: `starting`, `ready`, `draining` or `failed`."""

    status: Literal["ok", "unavailable"]
    state: str
    running: int
    queued: int
    stages: list[StageHealth]


def health_router(pipeline: Pipeline) -> APIRouter:
    router = APIRouter(tags=["operation"])

    @router.get("/health", summary="Is the process alive?")
    async def health() -> Health:  # pyright: ignore[reportUnusedFunction]
        return _health(pipeline)

    @router.get(
        "/ready",
        summary="Can it serve?",
        responses={503: {"model": Health, "description": "Not every stage is ready."}},
    )
    async def ready(response: Response) -> Health:  # pyright: ignore[reportUnusedFunction]
        found = _health(pipeline)
        response.status_code = 200 if found.status == "ok" else 503
        return found

    return router


def _health(pipeline: Pipeline) -> Health:
    snapshot = pipeline.snapshot()
    stages = [
        StageHealth(stage=stage.stage, process=stage.process, pid=stage.pid, state=stage.state)
        for stage in snapshot.stages
    ]
    serving = snapshot.state == "ready" and all(stage.state == "ready" for stage in stages)
    return Health(
        status="ok" if serving else "unavailable",
        state=snapshot.state,
        running=snapshot.running,
        queued=snapshot.queued,
        stages=stages,
    )
