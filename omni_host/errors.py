"""The errors of omni-host, one tree with stable codes.

    OmniError
    ├── UsageError              U001  the command line or a call is wrong      exit 2
    │   └── ConfigError         U002  a setting is unknown or has a bad value
    ├── PluginError             P001  a plugin cannot be used                  exit 3
    │   ├── PluginLoadError     P002  it does not import, or breaks the rules
    │   ├── AmbiguousClaimError P003  several plugins claim the same thing
    │   ├── UnclaimedError      P004  no installed plugin claims it
    │   ├── HookError           P005  a hook raised or returned something else
    │   ├── ArgumentClashError  P006  two plugins of one rank set one key
    │   ├── LockError           P007  a process finds other plugins than locked
    │   └── GraphError          P008  a stage graph is not valid
    ├── ModelError              M001  a model reference cannot be resolved     exit 2
    ├── PlatformError           H001  the hardware asked for is not there      exit 4
    ├── StageError              S001  something happened in a stage            exit 5
    │   ├── StageStartError     S002  it did not start
    │   ├── StageDiedError      S003  its process ended with the request inside
    │   ├── StageFailedError    S004  its code raised
    │   └── WireError           S005  a message or tensor cannot be carried
    └── RequestError            R001  a request was not served                 exit 1
        ├── InvalidRequestError R002  a field is wrong (names it)
        ├── UnknownModelError   R003  the server has no such model
        ├── QueueFullError      R004  admission is full, try again later
        ├── DrainingError       R005  the server is stopping
        ├── DeadlineError       R006  the request's deadline passed
        └── CancelledError      R007  the client went away

Every error is a sentence, and where something can be done about it a `hint` that
can be typed. Codes are stable: they may be matched by programs.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AmbiguousClaimError",
    "ArgumentClashError",
    "CancelledError",
    "ConfigError",
    "DeadlineError",
    "DrainingError",
    "GraphError",
    "HookError",
    "InvalidRequestError",
    "LockError",
    "ModelError",
    "OmniError",
    "PlatformError",
    "PluginError",
    "PluginLoadError",
    "QueueFullError",
    "RequestError",
    "StageDiedError",
    "StageError",
    "StageFailedError",
    "StageStartError",
    "UnclaimedError",
    "UnknownModelError",
    "UsageError",
    "WireError",
    "error_from_data",
]


class OmniError(Exception):
    """The root. `message` is one sentence; `hint` a command or a setting to try.

    `field` names the request field, setting or plugin at fault where there is one.
    `exit_code` is what `omni` exits with; `http_status` what the API answers with.
    """

    code: ClassVar[str] = "OMNI-X001"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    def to_data(self) -> dict[str, Any]:
        """What crosses a process boundary; `error_from_data` is the inverse."""
        return {
            "code": self.code,
            # A stage may put anything into its errors; only text can be carried, as UTF-8.
            "message": _text(self.message),
            "hint": _text(self.hint),
            "field": None if self.field is None else _text(self.field),
            **self._extra(),
        }

    def _extra(self) -> dict[str, Any]:
        return {}


class UsageError(OmniError):
    """The command line or a call is wrong."""

    code = "OMNI-U001"
    exit_code = 2
    http_status = 400


class ConfigError(UsageError):
    """A setting is unknown or has a bad value; `field` is its dotted name."""

    code = "OMNI-U002"


class PluginError(OmniError):
    """A plugin cannot be used."""

    code = "OMNI-P001"
    exit_code = 3


class PluginLoadError(PluginError):
    """A plugin does not import, or breaks a rule of the plugin layer."""

    code = "OMNI-P002"


class AmbiguousClaimError(PluginError):
    """Several plugins claim the same thing; the message names them all."""

    code = "OMNI-P003"


class UnclaimedError(PluginError):
    """No installed plugin claims what was asked for."""

    code = "OMNI-P004"


class HookError(PluginError):
    """A hook raised, or returned something that its specification does not allow."""

    code = "OMNI-P005"


class ArgumentClashError(PluginError):
    """Two plugins of one rank set one server argument to different values."""

    code = "OMNI-P006"


class LockError(PluginError):
    """A process finds other plugins than the lock records."""

    code = "OMNI-P007"


class GraphError(PluginError):
    """A stage graph is not valid; the message names the stage or edge."""

    code = "OMNI-P008"


class ModelError(OmniError):
    """A model reference cannot be resolved."""

    code = "OMNI-M001"
    exit_code = 2


class PlatformError(OmniError):
    """The hardware that was asked for is not there, or its probe failed."""

    code = "OMNI-H001"
    exit_code = 4


class StageError(OmniError):
    """Something happened in a stage; `field` is the stage's name."""

    code = "OMNI-S001"
    exit_code = 5


class StageStartError(StageError):
    """A stage did not start."""

    code = "OMNI-S002"


class StageDiedError(StageError):
    """A stage's process ended while the request was inside."""

    code = "OMNI-S003"
    http_status = 502


class StageFailedError(StageError):
    """A stage's own code raised; the message carries its type and text."""

    code = "OMNI-S004"


class WireError(StageError):
    """A message or a tensor cannot be carried."""

    code = "OMNI-S005"


class RequestError(OmniError):
    """A request was not served."""

    code = "OMNI-R001"


class InvalidRequestError(RequestError):
    """A field of the request is wrong; `field` names it. Stages raise it too."""

    code = "OMNI-R002"
    exit_code = 2
    http_status = 400


class UnknownModelError(RequestError):
    """The server has no model of that name."""

    code = "OMNI-R003"
    exit_code = 2
    http_status = 404


class QueueFullError(RequestError):
    """Admission is full. `retry_after` is in whole seconds."""

    code = "OMNI-R004"
    http_status = 503

    def __init__(
        self, message: str, *, hint: str = "", field: str | None = None, retry_after: int = 1
    ) -> None:
        super().__init__(message, hint=hint, field=field)
        self.retry_after = retry_after

    def _extra(self) -> dict[str, Any]:
        return {"retry_after": self.retry_after}


class DrainingError(QueueFullError):
    """The server is stopping and takes no new requests."""

    code = "OMNI-R005"


class DeadlineError(RequestError):
    """The request's deadline passed before it was served."""

    code = "OMNI-R006"
    http_status = 504


class CancelledError(RequestError):
    """The client went away; nobody reads the answer."""

    code = "OMNI-R007"
    http_status = 499


def _tree(root: type[OmniError]) -> dict[str, type[OmniError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        if child.__module__ == __name__:  # a plugin's own are told as what they inherit from
            found.update(_tree(child))
    return found


def _text(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def error_from_data(data: dict[str, Any]) -> OmniError:
    """Rebuild an error that crossed a process boundary; an unknown code gives the root."""
    kind = _tree(OmniError).get(data.get("code", ""), OmniError)
    retries = issubclass(kind, QueueFullError) and "retry_after" in data
    extra = {"retry_after": data["retry_after"]} if retries else {}
    return kind(data["message"], hint=data.get("hint", ""), field=data.get("field"), **extra)
