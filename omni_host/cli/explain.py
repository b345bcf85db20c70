"""`omni explain`: what would be started, and why, without starting it."""

from __future__ import annotations

import json

import click

from omni_host.cli.options import invocation, model_argument, shared_options
from omni_host.explanation import as_chart, as_data, as_text
from omni_host.planning import plan

__all__ = ["explain"]


@click.command()
@model_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    show_default=True,
    help="json for programs, mermaid for a picture in Markdown.",
)
@shared_options
def explain(form: str) -> None:
    """Show the stages of MODEL, where each runs, what connects them, and every
    argument with its source. Nothing is started. With -v also settings left at their defaults.

    \b
    omni explain demo
    omni explain demo --set placement=fused
    omni explain demo --format mermaid >graph.mmd
    """
    typed = invocation()
    settings = typed.settings()
    plugins = typed.plugins(settings)
    deployment = plan(settings.values.model.reference, settings, plugins, weights=False)
    if form == "json":
        data = as_data(deployment, settings)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
    elif form == "mermaid":
        click.echo(as_chart(deployment))
    else:
        click.echo(as_text(deployment, settings, defaults=typed.verbosity > 0))
