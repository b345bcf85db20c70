"""`GET /v1/models` and `GET /v1/models/{model}`."""

from __future__ import annotations

import time
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from omni_host.deployment import Deployment
from omni_host.errors import UnknownModelError
from omni_host.serve.errors import ERROR_RESPONSES
from omni_host.serve.field_errors import quoted

__all__ = ["models_router"]


class Model(BaseModel):
    """A model as OpenAI describes one; `owned_by` is the plugin that serves it."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


def models_router(deployment: Deployment) -> APIRouter:
    created = int(time.time())
    models = {
        name: Model(id=name, created=created, owned_by=deployment.owner)
        for name in (deployment.name, *deployment.aliases)
    }
    errors = {status: ERROR_RESPONSES[status] for status in (404, "default")}
    router = APIRouter(tags=["models"])

    @router.get("/v1/models", summary="List the models", responses={})
    async def list_models() -> ModelList:  # pyright: ignore[reportUnusedFunction]
        return ModelList(data=list(models.values()))

    # A hub name has a slash, which clients send as it is or as %2F.
    @router.get("/v1/models/{name:path}", summary="Describe a model", responses=errors)
    async def retrieve_model(name: str) -> Model:  # pyright: ignore[reportUnusedFunction]
        if name not in models:
            raise UnknownModelError(
                f"The model {quoted(name)} does not exist.",
                hint=f"This server has '{deployment.name}'.",
                field="model",
            )
        return models[name]

    return router
