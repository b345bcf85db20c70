"""Settings: the configuration after validation, and where each value came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from omni_host.config.keys import Key, dotted
from omni_host.config.reference import PLACEHOLDERS, described_settings
from omni_host.config.sources import Entry
from omni_host.config.tables import Configuration
from omni_host.deployment import Sourced
from omni_host.errors import ConfigError
from omni_host.plugins.faults import did_you_mean

__all__ = ["Settings", "validate"]

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`values` hold every setting; `entries` those that were given, by key in parts."""

    values: Configuration
    entries: Mapping[Key, Entry]

    def source(self, *key: str) -> str:
        """Where the setting came from: a file, a variable, an option, or `default`."""
        entry = _nearest(self.entries, key)
        return entry.source if entry else DEFAULT

    def given(self) -> dict[str, Sourced]:
        """Every setting that is not left at its default, by dotted name."""
        return {
            dotted(key): Sourced(value=entry.value, source=entry.source)
            for key, entry in sorted(self.entries.items())
        }

    def everything(self) -> dict[str, Sourced]:
        """Every setting with its value and source, by dotted name, those of stages if given."""
        defaults = {
            dotted(setting.key): Sourced(value=setting.value(self.values), source=DEFAULT)
            for setting in described_settings()
            if setting.key[0] not in PLACEHOLDERS
        }
        return dict(sorted({**defaults, **self.given()}.items()))

    def sourced(self, *table: str) -> dict[str, Sourced]:
        """The keys given under a table, each with its value and source.

        A key whose value is a table itself is sourced by all that gave a part of it.
        """
        found: dict[str, list[Entry]] = {}
        for key, entry in self.entries.items():
            if len(key) > len(table) and key[: len(table)] == table:
                found.setdefault(key[len(table)], []).append(entry)
        return {
            name: Sourced(value=_value(entries, (*table, name)), source=_sources(entries))
            for name, entries in found.items()
        }


def validate(entries: Mapping[Key, Entry]) -> Settings:
    """Check names and values. Raises ConfigError that names the key, value and source."""
    entries = dict(entries)
    try:
        values = Configuration.model_validate(_tree(entries))
    except ValidationError as error:
        if not _take_as_typed(entries, error):
            raise _config_error(entries, error) from None
        return validate(entries)
    return Settings(values=values, entries=entries)


def _tree(entries: Mapping[Key, Entry]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, entry in entries.items():
        table = tree
        for part in key[:-1]:
            table = table.setdefault(part, {})
        table[key[-1]] = entry.value
    return tree


def _value(entries: Iterable[Entry], key: Key) -> Any:
    below = {entry.key[len(key) - 1 :]: entry for entry in entries}
    return _tree(below)[key[-1]]


def _sources(entries: Iterable[Entry]) -> str:
    return ", ".join(dict.fromkeys(entry.source for entry in entries))


def _take_as_typed(entries: dict[Key, Entry], error: ValidationError) -> bool:
    """A string was wanted and `1.0` was typed: take the text in place of the number."""
    taken = False
    for detail in error.errors():
        entry = _nearest(entries, _key(detail["loc"]))
        if detail["type"] != "string_type" or entry is None or entry.text is None:
            continue
        if entry.value != entry.text:
            entries[entry.key] = replace(entry, value=entry.text)
            taken = True
    return taken


def _config_error(entries: Mapping[Key, Entry], error: ValidationError) -> ConfigError:
    detail = error.errors()[0]
    key = _key(detail["loc"])
    if detail["type"] == "extra_forbidden":
        return _unknown(entries, key)
    entry = _nearest(entries, key)
    name = dotted(entry.key if entry else key)
    return ConfigError(
        f"{name} = {detail['input']!r} (from {entry.source if entry else DEFAULT}) is not valid: "
        f"{_expectation(detail['msg'])}.",
        field=name,
    )


def _unknown(entries: Mapping[Key, Entry], key: Key) -> ConfigError:
    known = _known(key[:-1])
    below = next((entry for entry in entries.values() if entry.key[: len(key)] == key), None)
    source = f" (from {below.source})" if below else ""
    where = f"[{dotted(key[:-1])}] knows" if key[:-1] else "The configuration has"
    return ConfigError(
        f"There is no setting {dotted(key)}{source}.{did_you_mean(key[-1], known)}",
        hint=f"{where} {', '.join(known)}.",
        field=dotted(key),
    )


def _known(table: Key) -> list[str]:
    """The keys of a table of the configuration."""
    kind: Any = Configuration
    for part in table:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[part].annotation
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _key(location: tuple[int | str, ...]) -> Key:
    return tuple(str(part) for part in location)


def _nearest(entries: Mapping[Key, Entry], key: Key) -> Entry | None:
    """The entry of the key, or of the table around it that was given as something else."""
    for length in range(len(key), 0, -1):
        if key[:length] in entries:
            return entries[key[:length]]
    return None


def _expectation(message: str) -> str:
    """Pydantic's sentence, cut to what was expected."""
    if "valid dictionary" in message:
        return "expected a table"
    if "valid JSON value" in message:
        return "expected a string, number, boolean, list or table"
    message = message.removeprefix("Value error, ").removeprefix("Input should be ")
    return message if message.startswith("expected") else f"expected {message}"
