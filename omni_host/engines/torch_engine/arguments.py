"""The torch engine's own arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args

from omni_host.errors import ConfigError

__all__ = ["LoadFormat", "TorchArguments"]

LoadFormat = Literal["safetensors", "dummy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchArguments:
    """`server_args` of the torch engine.

    Attributes:
        load_format: `safetensors`, or `dummy` for weights drawn from `dummy_seed`.
        page_size: rows of a cache page; prefixes are shared in whole pages.
        max_total_rows: rows of the KV cache; 0 sizes it by memory.
        memory_fraction: share of the device's free memory, after the weights, that the KV
            cache takes; 0 means 0.85 of an accelerator and 0.25 of a CPU's.
        max_running: requests that hold a slot at a time, waiting ones included.
        chunk_rows: prompt rows of one prefill step.
        prefill_burst: prefill steps in a row while others could decode.
        prefix_cache: whether prompts share the cache of equal prefixes.
        batch_sizes: decode batches are padded up to one of these; none pads nothing.
    """

    load_format: LoadFormat = "safetensors"
    dummy_seed: int = 0
    page_size: int = 16
    max_total_rows: int = 0
    memory_fraction: float = 0.0
    max_running: int = 64
    chunk_rows: int = 2048
    prefill_burst: int = 2
    prefix_cache: bool = True
    batch_sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TorchArguments:
        """Check `server_args`.

        Raises ConfigError that names the key, and the nearest known one for an unknown key.
        """
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                raise ConfigError(
                    f"the torch engine has no argument {key!r}",
                    hint=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}",
                    field=f"server_args.{key}",
                )
            _check(key, given[key])
        values = dict(given)
        if "batch_sizes" in values:
            values["batch_sizes"] = tuple(values["batch_sizes"])
        arguments = cls(**values)
        if 0 < max(arguments.batch_sizes, default=0) < arguments.max_running:
            raise ConfigError(
                f"batch_sizes {list(arguments.batch_sizes)} do not hold max_running, "
                f"{arguments.max_running}",
                field="server_args.batch_sizes",
            )
        return arguments


def _counts(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _are_counts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_counts(1), cast("list[Any]", value)))


_ABOVE_ZERO = (_counts(1), "a whole number above 0")
_NOT_NEGATIVE = (_counts(0), "a whole number, not negative")
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "load_format": (lambda value: value in get_args(LoadFormat), "safetensors or dummy"),
    "dummy_seed": _NOT_NEGATIVE,
    "page_size": _ABOVE_ZERO,
    "max_total_rows": _NOT_NEGATIVE,
    "memory_fraction": (_is_share, "between 0 and 1"),
    "max_running": _ABOVE_ZERO,
    "chunk_rows": _ABOVE_ZERO,
    "prefill_burst": _ABOVE_ZERO,
    "prefix_cache": (lambda value: isinstance(value, bool), "true or false"),
    "batch_sizes": (_are_counts, "a list of whole numbers above 0"),
}


def _check(key: str, value: Any) -> None:
    holds, rule = _RULES[key]
    if not holds(value):
        raise ConfigError(
            f"{key} of the torch engine is {value!r}: it must be {rule}",
            field=f"server_args.{key}",
        )
