"""Where settings come from: one TOML file, the environment, `--set` and flags.

Only the standard library is imported here, and no part of it that is slow: what
lists plugins without loading them reads the configuration too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from omni_host.config.keys import Key, dotted, parse_key
from omni_host.errors import ConfigError

__all__ = ["Entry", "assignment", "gather", "literal", "merge"]

CONFIG_VARIABLE = "OMNI_CONFIG"
DEFAULT_FILE = "omni.toml"
TOP_LEVEL = frozenset({"placement"})
"""Settings outside any table, whose variables have no `__`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One setting as one source gives it. `text` is what was typed, where it was text."""

    key: Key
    value: Any
    source: str
    text: str | None = None


def gather(
    *,
    config: str | None = None,
    environment: Mapping[str, str],
    assignments: Iterable[str] = (),
    flags: Iterable[Entry] = (),
) -> dict[Key, Entry]:
    """Read every source in order of rank (file, environment, `--set`, flags) and merge them.

    Raises ConfigError where a source cannot be read; names and values are not checked here.
    """
    entries: list[Entry] = []
    path = _file(config, environment)
    if path is not None:
        entries += _from_file(path)
    entries += _from_environment(environment)
    entries += [assignment(text) for text in assignments]
    entries += flags
    return merge(entries)


def merge(entries: Iterable[Entry]) -> dict[Key, Entry]:
    """Later entries win; tables are merged key by key."""
    merged: dict[Key, Entry] = {}
    for entry in entries:
        for leaf in _leaves(entry):
            _place(merged, leaf)
    return merged


def assignment(text: str) -> Entry:
    """Read `a.b.c=value`; the value is a TOML literal, or else a string."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(
            f"--set {text} has no value.", hint=f"Write --set {text.strip() or 'a.b.c'}=VALUE."
        )
    key = parse_key(name)
    return Entry(key=key, value=literal(value), source=f"--set {dotted(key)}", text=value.strip())


def literal(text: str) -> Any:
    """What was typed as a TOML literal, or else the text itself."""
    import tomllib  # noqa: PLC0415 - as above

    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    value = table["value"]
    plain = len(table) == 1 and isinstance(value, (bool, int, float, str, list, dict))
    return cast("Any", value) if plain else text.strip()


def _file(config: str | None, environment: Mapping[str, str]) -> Path | None:
    for given, source in (
        (config, "--config"),
        (environment.get(CONFIG_VARIABLE), CONFIG_VARIABLE),
    ):
        if not given:
            continue
        path = Path(given)
        if not path.is_file():
            raise ConfigError(f"There is no configuration file {path} ({source}).", field=source)
        return path
    path = Path(DEFAULT_FILE)
    return path if path.is_file() else None


def _from_file(path: Path) -> list[Entry]:
    import tomllib  # noqa: PLC0415 - not every command has a file to read

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a readable TOML file: {error}.") from error
    return [Entry(key=(name,), value=value, source=str(path)) for name, value in table.items()]


def _from_environment(environment: Mapping[str, str]) -> list[Entry]:
    """`OMNI_A__B` is a.b. Other names that start with OMNI_ belong to other software."""
    entries: list[Entry] = []
    for variable in sorted(environment):
        prefix, _, name = variable.partition("_")
        if prefix != "OMNI" or ("__" not in name and name.lower() not in TOP_LEVEL):
            if prefix == "OMNI":
                _warn_of_misspelt(variable, name.lower())
            continue
        text = environment[variable]
        key = _variable_key(name, variable)
        entries.append(Entry(key=key, value=literal(text), source=variable, text=text))
    return entries


def _warn_of_misspelt(variable: str, name: str) -> None:
    meant = next((known for known in sorted(TOP_LEVEL) if _is_one_edit_away(name, known)), None)
    if meant is not None:
        import logging  # noqa: PLC0415 - 5 ms that nobody else need pay

        logging.getLogger("omni_host.config").warning(
            "The variable %s is no setting. Did you mean 'OMNI_%s'?", variable, meant.upper()
        )


def _is_one_edit_away(name: str, known: str) -> bool:
    """One letter more, less, of another kind, or two neighbours the other way round."""
    pairs = zip(name, known, strict=False)
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    one, other = name[start:], known[start:]
    return (
        one[1:] == other
        or one == other[1:]
        or one[1:] == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )


def _variable_key(name: str, variable: str) -> Key:
    """Lower case, but for the names under `stages.NAME.env`, which are variables themselves."""
    parts = name.split("__")
    if not all(parts):
        raise ConfigError(
            f"The variable {variable} has an empty part.", hint="Write OMNI_TABLE__KEY=value."
        )
    lower = [part.lower() for part in parts]
    if lower[0] == "stages" and lower[2:3] == ["env"]:
        return (*lower[:3], *parts[3:])
    return tuple(lower)


def _leaves(entry: Entry) -> Iterator[Entry]:
    value = entry.value
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not table:
        yield entry
    for name, inner in table.items():
        yield from _leaves(Entry(key=(*entry.key, name), value=inner, source=entry.source))


def _place(merged: dict[Key, Entry], leaf: Entry) -> None:
    below = [key for key in merged if len(key) > len(leaf.key) and key[: len(leaf.key)] == leaf.key]
    if leaf.value == {} and below:
        return
    for key in below:
        del merged[key]
    for length in range(len(leaf.key)):
        merged.pop(leaf.key[:length], None)
    merged.pop(leaf.key, None)
    merged[leaf.key] = leaf
