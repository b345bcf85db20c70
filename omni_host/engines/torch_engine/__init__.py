"""The torch engine: continuous batching over its own paged cache, in plain PyTorch."""

from omni_host.engines.torch_engine.engine import TorchEngine

__all__ = ["TorchEngine"]
