"""omni-host: a slim host for multi-stage speech and omni models."""

__version__ = "0.1.0"
