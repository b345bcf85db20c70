"""The sglang engine. Importing it imports torch; SGLang itself is imported by the first engine."""

from omni_host.engines.sglang_engine.engine import SglangEngine

__all__ = ["SglangEngine"]
