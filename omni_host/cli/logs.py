"""Logging of a command: to standard error, warnings only unless asked for more."""

from __future__ import annotations

import logging

from omni_host.config.settings import Settings

__all__ = ["configure_logging"]

LEVELS = ("warning", "info", "debug")


def configure_logging(settings: Settings, verbosity: int) -> None:
    """`-v` is info and `-vv` debug; without them `log.level` decides."""
    level = LEVELS[min(verbosity, len(LEVELS) - 1)] if verbosity else settings.values.log.level
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
