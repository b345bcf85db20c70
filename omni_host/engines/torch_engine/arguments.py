"""The torch engine's own arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, get_args

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
        values = dict(given)
        if isinstance(values.get("batch_sizes"), list):
            values["batch_sizes"] = tuple(values["batch_sizes"])
        arguments = cls(**values)
        arguments._check()
        return arguments

    def _check(self) -> None:
        for name in ("page_size", "max_running", "chunk_rows", "prefill_burst"):
            self._require(name, _is_count(getattr(self, name), 1), "a whole number above 0")
        for name in ("max_total_rows", "dummy_seed"):
            self._require(name, _is_count(getattr(self, name), 0), "a whole number, not negative")
        self._require(
            "memory_fraction",
            isinstance(self.memory_fraction, int | float) and 0 <= self.memory_fraction <= 1,
            "between 0 and 1",
        )
        self._require("prefix_cache", isinstance(self.prefix_cache, bool), "true or false")
        formats = get_args(LoadFormat)
        self._require("load_format", self.load_format in formats, " or ".join(formats))
        sizes = self.batch_sizes
        whole = isinstance(sizes, tuple) and all(_is_count(size, 1) for size in sizes)
        self._require("batch_sizes", whole, "whole numbers above 0")
        self._require(
            "batch_sizes",
            not sizes or max(sizes) >= self.max_running,
            f"able to hold max_running, {self.max_running}",
        )

    def _require(self, name: str, holds: bool, rule: str) -> None:  # noqa: FBT001
        if not holds:
            raise ConfigError(
                f"{name} of the torch engine is {getattr(self, name)!r}: it must be {rule}",
                field=f"server_args.{name}",
            )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
