"""Options that every command takes, before or after its name, and what they amount to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    # Settings and plugins are imported when a command asks for them.
    from omni_host.config.settings import Settings
    from omni_host.config.sources import Entry
    from omni_host.plugins import Plugins

__all__ = ["Invocation", "invocation", "model_argument", "shared_options"]

Function = TypeVar("Function", bound=Callable[..., Any])
Flag = tuple[tuple[str, ...], Any, str]


@dataclass(slots=True)
class Invocation:
    """What was typed: options of the group and of the command together.

    `flags` are options that stand for a setting: its key, value, and the option's name.
    """

    config: str | None = None
    assignments: list[str] = field(default_factory=list[str])
    flags: list[Flag] = field(default_factory=list[Flag])
    verbosity: int = 0

    def flag(self, key: tuple[str, ...], value: Any, source: str) -> None:
        """Let an option set a setting, unless it was not given (None)."""
        if value is not None:
            self.flags.append((key, value, source))

    def entries(self) -> dict[tuple[str, ...], Entry]:
        """The settings as given, not validated. Raises ConfigError."""
        import os  # noqa: PLC0415

        from omni_host.config.sources import Entry, gather  # noqa: PLC0415

        return gather(
            config=self.config,
            environment=os.environ,
            assignments=self.assignments,
            flags=[Entry(key=key, value=value, source=source) for key, value, source in self.flags],
        )

    def plugin_lists(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plugins allowed and blocked, read without validating anything else."""
        from omni_host.config.plugin_lists import plugin_lists  # noqa: PLC0415

        return plugin_lists(self.entries())

    def settings(self) -> Settings:
        """The settings, validated. Raises ConfigError."""
        from omni_host.config.settings import validate  # noqa: PLC0415

        return validate(self.entries())

    def plugins(self, settings: Settings) -> Plugins:
        """The installed plugins, as far as they are allowed and not blocked."""
        from omni_host.plugins import Plugins, discover  # noqa: PLC0415

        table = settings.values.plugins
        return Plugins.load(discover(), allow=table.allow, block=table.block)


def invocation() -> Invocation:
    """The invocation that the running command belongs to."""
    return click.get_current_context().ensure_object(Invocation)


def shared_options(function: Function) -> Function:
    """Add the options to a command; their values go to `invocation()`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def model_argument(function: Function) -> Function:
    """Add the argument MODEL, which stands for `model.reference`."""
    return click.argument("model", required=False, expose_value=False, callback=_set_model)(
        function
    )


def _set_model(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    context.ensure_object(Invocation).flag(("model", "reference"), value, "MODEL")


def _set_config(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).config = value


def _add_assignments(
    context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> None:
    context.ensure_object(Invocation).assignments += values


def _add_verbosity(context: click.Context, _parameter: click.Parameter, count: int) -> None:
    context.ensure_object(Invocation).verbosity += count


def _add_names(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    if values:
        names = [name for value in values for name in value.split(",")]
        _, _, which = str(parameter.name).partition("_")
        context.ensure_object(Invocation).flag(("plugins", which), names, f"--plugins-{which}")


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--config",
        metavar="FILE",
        expose_value=False,
        callback=_set_config,
        help="TOML file of settings.  [default: $OMNI_CONFIG, else omni.toml if there is one]",
    ),
    click.option(
        "--set",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=_add_assignments,
        help="Change one setting, such as limits.max_running=8; may be repeated.",
    ),
    click.option(
        "--plugins-allow",
        metavar="NAMES",
        multiple=True,
        expose_value=False,
        callback=_add_names,
        help="Load these plugins only (names with commas between them).",
    ),
    click.option(
        "--plugins-block",
        metavar="NAMES",
        multiple=True,
        expose_value=False,
        callback=_add_names,
        help="Do not load these plugins.",
    ),
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_add_verbosity,
        help="Log more (-vv: everything), and show tracebacks.",
    ),
]
