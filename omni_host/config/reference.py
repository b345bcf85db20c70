"""The settings with their types, defaults and meanings, as the tables declare them.

`python -m omni_host.config.reference >docs/settings.md` writes the page about them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from omni_host.config.keys import Key, dotted
from omni_host.config.tables import Configuration

__all__ = ["PLACEHOLDERS", "Setting", "described_settings", "description_of", "reference_page"]

PLACEHOLDERS = {"stages": "NAME", "edges": "a->b"}
"""Tables that hold one for each stage or edge, which have no defaults of their own."""
INTRODUCTION = """# Settings

Read from `omni.toml` (or `--config FILE`), `OMNI_TABLE__KEY=VALUE` variables and
`--set table.key=VALUE`, the last one winning. `omni explain -v` shows the value and the source
of each. A stage or an edge is as its model says where nothing is set. Any other key of
`[model]` is an option of the model's plugin.

| setting | default | meaning |
|---|---|---|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, with `NAME` and `a->b` for names of stages and edges."""

    key: Key
    default: Any
    description: str

    def value(self, values: Configuration) -> Any:
        """What it is set to; the key may hold no placeholder."""
        return reduce(getattr, self.key, values)


def described_settings() -> tuple[Setting, ...]:
    """Every setting, in the order of the tables."""
    return tuple(_settings(Configuration, ()))


def description_of(name: str) -> str:
    """The meaning of a setting by its dotted name; empty for what a plugin gives meaning to."""
    return _DESCRIPTIONS.get(name, "")


def reference_page() -> str:
    """All of them as a page of Markdown."""
    rows = (
        f"| `{dotted(setting.key)}` | {_shown(setting.default)} | {setting.description} |"
        for setting in described_settings()
    )
    return "\n".join([INTRODUCTION, *rows]) + "\n"


def _settings(table: type[BaseModel], above: Key) -> Iterator[Setting]:
    for name, field in table.model_fields.items():
        kind: Any = field.annotation
        key = (*above, name)
        if name in PLACEHOLDERS and get_origin(kind) is dict:
            kind = get_args(kind)[1]
            key = (*key, PLACEHOLDERS[name])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings(kind, key)
        else:
            yield Setting(key=key, default=field.default, description=field.description or "")


def _shown(default: Any) -> str:
    return "" if default is None or default in ((), {}) else f"`{json.dumps(default)}`"


_DESCRIPTIONS = {dotted(setting.key): setting.description for setting in described_settings()}


if __name__ == "__main__":
    print(reference_page(), end="")  # noqa: T201
