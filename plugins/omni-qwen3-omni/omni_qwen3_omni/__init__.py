"""Qwen3-Omni for omni-host."""

__version__ = "0.1.0"
