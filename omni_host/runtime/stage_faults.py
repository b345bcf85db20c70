"""What a stage's own code did wrong, as the error that is told about it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

import omni_host
from omni_host.errors import OmniError, StageFailedError, StageStartError

__all__ = ["failure", "misuse", "results_of", "start_failure"]

_HINT = "-v shows the traceback"
_OWN_FOLDER = os.path.join(os.path.dirname(omni_host.__file__), "")  # noqa: PTH118, PTH120 - as frames spell it


def failure(stage: str, error: BaseException) -> OmniError:
    """The error of a request whose stage raised `error`; an `OmniError` is its own."""
    if isinstance(error, OmniError):
        return error
    return StageFailedError(f"Stage {stage!r} failed: {_described(error)}", hint=_HINT, field=stage)


def misuse(stage: str, what: str) -> StageFailedError:
    """The error of a stage that breaks the contract where none of its code is at work."""
    return StageFailedError(f"Stage {stage!r} failed: {what}", field=stage)


def start_failure(stage: str, error: BaseException) -> StageStartError:
    """The error of a stage whose constructor, or whose module, raised `error`."""
    return StageStartError(
        f"Stage {stage!r} did not start: {_described(error)}", hint=_HINT, field=stage
    )


def results_of(stage: str, function: str, returned: Any, count: int) -> list[Any]:
    """The `count` results that a batch function returned.

    Raises StageFailedError if it returned anything else than a sequence of so many.
    """
    if not _is_sequence(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # Python would warn that it never ran
        found = type(returned).__name__
    elif len(returned) != count:
        found = f"{len(returned)} results"
    else:
        return [returned[index] for index in range(count)]
    raise misuse(stage, f"{function} returned {found}, expected a sequence of {count} results")


def _is_sequence(value: object) -> bool:
    """Arrays and tensors are sequences too, which no class that they share says."""
    has_items = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return has_items and not isinstance(value, str | bytes | Mapping)


def _described(error: BaseException) -> str:
    """The error's type and text, and where in the stage's code it was raised."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error class of a stage's own, which may be broken too
        text = "an error that cannot be shown"
    name = type(error).__name__
    return (f"{name}: {text}" if text else name) + _place(error)


def _place(error: BaseException) -> str:
    innermost: tuple[FrameType, int] | None = None
    theirs: tuple[FrameType, int] | None = None
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith("<frozen"):
            innermost = (step.tb_frame, step.tb_lineno)
            if not file.startswith(_OWN_FOLDER):
                theirs = innermost
        step = step.tb_next
    found = theirs or innermost
    if found is None:
        return ""
    code = found[0].f_code
    return f" ({os.path.basename(code.co_filename)}:{found[1]} in {code.co_name})"  # noqa: PTH119 - "<string>" is no path
