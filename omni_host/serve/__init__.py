"""The OpenAI-compatible API over a pipeline."""

from omni_host.serve.app import create_app
from omni_host.serve.metrics import Metrics
from omni_host.serve.options import ServeOptions
from omni_host.serve.server import Server

__all__ = ["Metrics", "ServeOptions", "Server", "create_app"]
