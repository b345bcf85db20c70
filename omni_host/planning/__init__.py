"""Planning: from a model reference and settings to a `Deployment`. It starts nothing."""

from omni_host.planning.plan import plan

__all__ = ["plan"]
