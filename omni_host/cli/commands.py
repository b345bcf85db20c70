"""The commands of `omni`, by name: a table of the host's own, and those that plugins add.

None is imported until it runs, so that `--help` costs no more than click.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from omni_host.cli.options import Invocation
from omni_host.errors import AmbiguousClaimError, PluginError, PluginLoadError

if TYPE_CHECKING:
    from omni_host.plugins.discovery import Discovery
    from omni_host.plugins.entry_points import EntryPoint

__all__ = ["OmniGroup"]

PLUGINS = "omni_host.plugins"
COMMANDS = "omni_host.commands"
BUILT_IN = {
    "speak": ("omni_host.cli.speak:speak", "Say a text into an audio file."),
    "serve": ("omni_host.cli.serve:serve", "Serve a model behind an OpenAI-compatible API."),
    "explain": ("omni_host.cli.explain:explain", "Show a model's stages and where each will run."),
    "install-engine": (
        "omni_host.cli.install_engine:install_engine",
        "Install an engine, as it fits this machine.",
    ),
    "list-plugins": ("omni_host.cli.list_plugins:list_plugins", "Show what is installed."),
}


class OmniGroup(click.Group):
    """Finds commands by name, and lists them with a line each, without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The host's commands first, then those of plugins."""
        return [*BUILT_IN, *_plugin_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command. Raises PluginLoadError if it is a plugin's, and broken."""
        if cmd_name in BUILT_IN:
            module, _, attribute = BUILT_IN[cmd_name][0].partition(":")
            return getattr(import_module(module), attribute)
        claims = _plugin_commands().get(cmd_name)
        return _load(cmd_name, claims, ctx.ensure_object(Invocation)) if claims else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, with a suggestion where there is no such command."""
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        from omni_host.plugins.faults import did_you_mean  # noqa: PLC0415 - only on errors

        known = self.list_commands(ctx)
        raise click.UsageError(f"There is no command '{name}'.{did_you_mean(name, known)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in BUILT_IN.items()])
        added = _plugin_commands()
        if added:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(
                    [
                        (name, "of " + ", ".join(map(_origin, claims)))
                        for name, claims in added.items()
                    ]
                )


def _plugin_commands() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in _discovery().group(COMMANDS):
        if point.name not in BUILT_IN:
            found.setdefault(point.name, []).append(point)
    return found


def _discovery() -> Discovery:
    from omni_host.plugins.discovery import discover  # noqa: PLC0415 - built-in commands need none

    return discover()


def _origin(point: EntryPoint) -> str:
    return str(point.distribution)


def _load(name: str, claims: list[EntryPoint], typed: Invocation) -> click.Command:
    point = claims[0]
    if len(claims) > 1:
        raise AmbiguousClaimError(
            f"The command '{name}' is claimed by {' and by '.join(map(_origin, claims))}.",
            hint=f"pip uninstall {point.distribution.name}",
            field=name,
        )
    _refuse_blocked(name, point, typed)
    module, _, attribute = point.value.partition(":")
    try:
        command = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a plugin's module may raise anything
        raise _broken(name, point, f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise _broken(name, point, f"{point.value} is no click command but {command!r}")
    return command


def _refuse_blocked(name: str, point: EntryPoint, typed: Invocation) -> None:
    """A command goes with the plugins of its distribution: all blocked, and it is too."""
    from omni_host.plugins.selection import blocked_names  # noqa: PLC0415 - as above

    allow, block = typed.plugin_lists()
    points = _discovery().group(PLUGINS)
    siblings = {p.name for p in points if p.distribution == point.distribution}
    blocked = blocked_names(points, allow, block)
    if siblings <= blocked and (siblings or allow):
        raise PluginError(
            f"The command '{name}' of {point.distribution} is blocked with its plugins.",
            hint="Change plugins.allow or plugins.block.",
            field=name,
        )


def _broken(name: str, point: EntryPoint, cause: str) -> PluginLoadError:
    return PluginLoadError(
        f"The command '{name}' of {point.distribution} cannot be loaded: {cause}.",
        hint=f"pip install --force-reinstall {point.distribution.name}",
        field=name,
    )
