"""Qwen3-TTS-12Hz for omni-host."""

__version__ = "0.1.0"
