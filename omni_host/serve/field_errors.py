"""Errors that name the request field at fault.

Apart from what answers HTTP with them: `omni speak` checks its request in the same way
and need not import a web framework for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from reprlib import Repr

from pydantic_core import ErrorDetails

from omni_host.errors import InvalidRequestError

__all__ = ["invalid_fields", "quoted", "unknown_field"]

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxlong = 64
_SHORT.maxlevel = 2


def quoted(value: object) -> str:
    """A client's value as it may stand in a message: short, and on one line."""
    return _SHORT.repr(value)


def unknown_field(field: str, known: Iterable[str]) -> InvalidRequestError:
    """The 400 of a field that does not exist, with the one that may have been meant."""
    name, names = field[:64], sorted(known)
    close = get_close_matches(name, names, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known fields: {', '.join(names)}."
    return InvalidRequestError(f"Unknown field {quoted(name)}.", hint=hint, field=name)


def invalid_fields(errors: Sequence[ErrorDetails]) -> InvalidRequestError:
    """The 400 of a failed pydantic validation: names the first field at fault."""
    first = errors[0]
    field = str(first["loc"][0]) if first["loc"] else None
    if field is None:
        return InvalidRequestError(f"The request body is wrong: {first['msg']}.")
    if first["type"] == "missing":
        return InvalidRequestError(f"The field '{field}' is missing.", field=field)
    reason = first["msg"].replace("Input", "it", 1).replace("String", "it", 1)
    return InvalidRequestError(
        f"Invalid value for '{field}': {reason}, not {quoted(first['input'])}.", field=field
    )
