"""The command line. Each command is imported when it runs; `omni --help` needs click alone."""

from omni_host.cli.entry import main

__all__ = ["main"]
