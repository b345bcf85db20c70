"""Server arguments by rank: owner < platform < other plugins < operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omni_host.errors import ArgumentClashError
from omni_host.graph import StageSpec
from omni_host.offers import Sourced

__all__ = ["ranked_arguments"]

Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


def ranked_arguments(
    stage: StageSpec,
    ranks: Sequence[Sequence[str]],
    ask: Ask,
    operator: Mapping[str, Sourced],
) -> dict[str, Sourced]:
    """Merge the stage's own arguments, the patches of each rank, and the operator's.

    `ranks` holds plugin names, the lowest rank first, the owner alone in the first;
    `ask(plugin, arguments)` gives a plugin's patch to what the ranks below gave.
    Raises ArgumentClashError where two plugins of a rank disagree and the operator
    has not decided.
    """
    owner = ranks[0][0]
    merged = {key: _of(owner, value) for key, value in stage.server_args.items()}
    for rank in ranks:
        below = {key: sourced.value for key, sourced in merged.items()}
        patched: dict[str, tuple[str, Any]] = {}
        for plugin in rank:
            for key, value in (ask(plugin, dict(below)) or {}).items():
                other = patched.setdefault(key, (plugin, value))
                if other[1] != value and key not in operator:
                    raise _clash(stage, key, other, (plugin, value))
        merged |= {key: _of(plugin, value) for key, (plugin, value) in patched.items()}
    return dict(sorted({**merged, **operator}.items()))


def _of(plugin: str, value: Any) -> Sourced:
    return Sourced(value=value, source=f"plugin {plugin}")


def _clash(
    stage: StageSpec, key: str, first: tuple[str, Any], second: tuple[str, Any]
) -> ArgumentClashError:
    return ArgumentClashError(
        f"Plugins '{first[0]}' and '{second[0]}' set '{key}' of stage '{stage.name}' "
        f"differently: {first[1]!r} and {second[1]!r}.",
        hint=f"--set stages.{stage.name}.server_args.{key}=VALUE",
        field=key,
    )
