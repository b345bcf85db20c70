"""`main`: run a command, and turn whatever goes wrong into a sentence and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from types import TracebackType

import click

from omni_host import __version__
from omni_host.cli.commands import OmniGroup
from omni_host.cli.options import Invocation, shared_options
from omni_host.errors import OmniError

__all__ = ["main", "omni"]

INTERRUPTED = 130
FAILED = 1


@click.group(
    cls=OmniGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Settings come from omni.toml (or --config FILE), OMNI_TABLE__KEY=VALUE variables and "
    "--set table.key=VALUE, the last one winning.",
)
@click.version_option(__version__, message="omni-host %(version)s")
@shared_options
@click.pass_context
def omni(context: click.Context) -> None:
    """Speak, listen and serve with multi-stage speech and omni models.

    \b
    omni speak "Good morning."        say it into out.wav
    omni serve                        the OpenAI-compatible API on http://127.0.0.1:8000
    omni explain demo                 the stages of a model, and where they run
    omni list-plugins                 what is installed
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `omni` and return its exit code.

    A traceback is shown only with `-v`.
    """
    # pydantic looks for plugins of its own in the metadata of everything installed, and one
    # malformed entry_points.txt would end `import pydantic`.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    typed = Invocation()
    sys.excepthook = partial(_report_defect, typed)
    try:
        result = omni.main(arguments, prog_name="omni", standalone_mode=False, obj=typed)
        return _flush() or (result if isinstance(result, int) else 0)
    except OmniError as error:
        return _fail(typed, error, error.message, error.hint, error.exit_code)
    except click.ClickException as error:
        return _fail(typed, error, error.format_message(), _usage_hint(error), error.exit_code)
    except click.Abort as error:
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _fail(typed, error, f"{error}.", "", FAILED)


def _fail(typed: Invocation, error: BaseException, message: str, hint: str, code: int) -> int:
    if typed.verbosity:
        _show_traceback(error)
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(message, err=True)
    if hint:
        click.secho("hint: ", fg="cyan", nl=False, err=True)
        click.echo(hint, err=True)
    return code


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path} --help" if context else ""


def _flush() -> int:
    """What a reader that went away (`omni ... | head`) leaves unsaid is nobody's loss."""
    stdout = sys.__stdout__
    if stdout is None:
        return 0
    try:
        stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return FAILED
    return 0


def _report_defect(
    typed: Invocation,
    kind: type[BaseException],
    error: BaseException,
    _traceback: TracebackType | None,
) -> None:
    """The hook of last resort: an error that nobody foresaw is a defect, and says so."""
    _fail(
        typed, error, f"{kind.__name__}: {error}", "This is a defect. -v shows where it is.", FAILED
    )


def _show_traceback(error: BaseException) -> None:
    import traceback  # noqa: PLC0415 - only here

    traceback.print_exception(error)
