"""Fish Audio S2 for omni-host."""

__version__ = "0.1.0"
