"""`omni list-plugins`: what is installed, what it claims, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omni_host.cli.options import invocation, shared_options
from omni_host.plugins.claims import StaticClaim
from omni_host.plugins.discovery import Discovery, discover
from omni_host.plugins.entry_points import CLAIM_GROUPS, PLUGINS, PREFIX
from omni_host.plugins.report import PluginReport, Report, report_of_discovery
from omni_host.plugins.selection import blocked_names

if TYPE_CHECKING:
    from omni_host.plugins.faults import Fault

__all__ = ["list_plugins"]

FAULTY = 3
COLOURS = {"loaded": "green", "found": "green", "broken": "red", "blocked": "yellow"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--no-load", is_flag=True, help="Read metadata only: import no plugin.")
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 3 if anything is wrong. With --no-load that is what metadata shows: "
    "a plugin that cannot be imported passes.",
)
@shared_options
def list_plugins(*, as_json: bool, no_load: bool, check: bool) -> None:
    """List the installed plugins, what each provides, and every fault with its fix.

    With -v also what each plugin says of itself.
    """
    typed = invocation()
    allow, block = typed.plugin_lists()
    discovery = discover()
    report = _static(discovery, allow, block) if no_load else _loaded(discovery, allow, block)
    if as_json:
        import json  # noqa: PLC0415 - 4 ms that the table does not need

        click.echo(json.dumps(report.to_data(), indent=2))
    else:
        for line in _table(report):
            click.echo(line)
        for plugin in report.plugins if typed.verbosity else ():
            click.echo("\n".join(["", *_details(plugin)]))
        for command in report.commands:
            click.echo(f"command {command.name} of {command.distribution}")
        for line in _faults(report.faults):
            click.echo(line)
    if check and report.faults:
        click.get_current_context().exit(FAULTY)


def _static(discovery: Discovery, allow: tuple[str, ...], block: tuple[str, ...]) -> Report:
    return report_of_discovery(discovery, blocked_names(discovery.group(PLUGINS), allow, block))


def _loaded(discovery: Discovery, allow: tuple[str, ...], block: tuple[str, ...]) -> Report:
    import logging  # noqa: PLC0415 - like the facade's, a cost that --no-load saves

    from omni_host.plugins.facade import Plugins  # noqa: PLC0415

    # What is logged as a warning elsewhere is what this command prints.
    logging.getLogger("omni_host.plugins").setLevel(logging.ERROR)
    return Plugins.load(discovery, allow, block).report


def _table(report: Report) -> Iterator[str]:
    rows = [("PLUGIN", "STATE", "DISTRIBUTION", "PROVIDES")]
    rows += [
        (p.name, p.state, f"{p.distribution} {p.version}", _provides(p, report.claims))
        for p in report.plugins
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, state, distribution, provides in rows:
        coloured = click.style(state.ljust(widths[1]), fg=COLOURS.get(state))
        yield f"{name:<{widths[0]}}  {coloured}  {distribution:<{widths[2]}}  {provides}".rstrip()


def _provides(plugin: PluginReport, claims: tuple[StaticClaim, ...]) -> str:
    """`platforms: cpu; transports: inline, shm`, in the order of the groups."""
    parts: list[str] = []
    for group in CLAIM_GROUPS:
        names = [c.name for c in claims if c.group == group and c.plugin == plugin.name]
        if names:
            parts.append(f"{group.removeprefix(PREFIX)}: {', '.join(names)}")
    return "; ".join(parts)


def _details(plugin: PluginReport) -> Iterator[str]:
    yield f"{plugin.name} {plugin.version}"
    if plugin.summary:
        yield f"  {plugin.summary}"
    yield f"  module       {plugin.module}"
    if plugin.api_version is not None:
        yield f"  plugin API   {plugin.api_version}"
    yield f"  verified     {plugin.verified or 'nowhere yet'}"
    yield f"  metadata     {plugin.metadata}"


def _faults(faults: tuple[Fault, ...]) -> Iterator[str]:
    if faults:
        yield ""
        yield click.style(
            f"{len(faults)} fault{'s' if len(faults) > 1 else ''}", fg="red", bold=True
        )
    for fault in faults:
        yield f"  {fault} [{fault.kind}]"
        yield f"    fix: {fault.fix}"
