"""The server arguments of a stage, checked against those it has."""

from __future__ import annotations

from omni_host.api import StageContext, errors

__all__ = ["refuse_others", "threads"]


def refuse_others(context: StageContext, known: frozenset[str] = frozenset()) -> None:
    """Raise StageStartError that names an argument outside `known`."""
    for name in sorted(context.server_args.keys() - known):
        raise errors.StageStartError(
            f"Stage {context.name!r} has no argument {name!r};"
            f" it has: {', '.join(sorted(known)) or 'none'}.",
            field=context.name,
        )


def threads(context: StageContext) -> int:
    """The threads of the ONNX session, 1 if not given."""
    value = context.server_args.get("threads", 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise errors.StageStartError(
            f"Argument 'threads' of stage {context.name!r} must be a whole number"
            f" of at least 1, not {value!r}.",
            field=context.name,
        )
    return value
