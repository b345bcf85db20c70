"""From a stage's `server_args` to SGLang's `ServerArgs`.

Keys are SGLang's own, checked against the fields of the version that is installed. Those that this
engine sets itself, and features that its loop does not drive, are refused by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from omni_host.engines.engine import EngineBuild
from omni_host.engines.sglang_engine import editions
from omni_host.engines.sglang_engine.symbols import Sglang
from omni_host.errors import ConfigError

__all__ = ["Arguments"]

_SET_HERE = {
    "model_path": "the engine builds the decoder from its spec",
    "tokenizer_path": "the engine has no tokenizer",
    "device": "the stage's placement decides it",
    "base_gpu_id": "the stage's placement decides it",
    "dtype": "the stage's dtype decides it",
    "context_length": "the decoder's spec decides it",
    "json_model_override_args": "the decoder's spec decides it",
}
_ALWAYS: dict[str, Any] = {
    "skip_tokenizer_init": True,
    "disable_overlap_schedule": True,
    "grammar_backend": "none",
    "sampling_backend": "pytorch",
    "disable_prefill_cuda_graph": True,
    "load_format": "auto",
}
_NOT_DRIVEN = {
    *("dp_size", "pp_size", "nnodes", "enable_dp_attention"),
    *("enable_hierarchical_cache", "enable_lora", "enable_mixed_chunk"),
    *("enable_two_batch_overlap", "disaggregation_mode", "speculative_algorithm"),
    *("quantization", "is_embedding"),
}
_DEFAULTS: dict[str, Any] = {
    "log_level": "warning",
    "max_running_requests": 16,
    "random_seed": 0,
}
_DEFAULTS_ON_CPU: dict[str, Any] = {
    "attention_backend": "torch_native",
    "disable_cuda_graph": True,
    # The library's own choice comes out negative on a CPU.
    "mem_fraction_static": 0.2,
}
_COUNTS = {"max_running_requests": 1, "random_seed": 0, "tp_size": 1}
"""What the engine itself counts with, and the least of each."""
_LOAD_FORMATS = {"auto": "safetensors", "safetensors": "safetensors", "dummy": "dummy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The server arguments of one stage, checked; plain data.

    Attributes:
        values: what SGLang's `ServerArgs` gets, but for the folder.
        load_format: `safetensors` or `dummy`.
    """

    values: Mapping[str, Any]
    load_format: str

    @classmethod
    def of(cls, sgl: Sglang, build: EngineBuild) -> Arguments:
        """Check the arguments of a build.

        Raises ConfigError that names the key if it is unknown, set by the engine itself, or
        of a feature that the engine does not drive.
        """
        given = dict(build.server_args)
        _check(sgl, given)
        load_format = _load_format(given.pop("load_format", "auto"))
        device, _, index = build.device.partition(":")
        if device == "cpu" and given.get("page_size", 1) != 1:
            raise ConfigError(
                "On a CPU pages hold one row: SGLang places larger ones by a Triton kernel",
                field="server_args.page_size",
            )
        defaults = _DEFAULTS | (_DEFAULTS_ON_CPU if device == "cpu" else {})
        values: dict[str, Any] = defaults | given | _ALWAYS
        values |= {"device": device, "dtype": build.dtype, "base_gpu_id": int(index or 0)}
        values["context_length"] = build.decoder.max_positions
        if device == "cpu":
            # Memory would allow for far more rows than requests could fill.
            most = values["max_running_requests"] * build.decoder.max_positions
            values["max_total_tokens"] = values.get("max_total_tokens") or most
        return cls(values=values, load_format=load_format)

    @property
    def max_running_requests(self) -> int:
        """How many requests hold rows at most."""
        return self.values["max_running_requests"]

    @property
    def random_seed(self) -> int:
        """Of dummy weights."""
        return self.values["random_seed"]

    @property
    def ranks(self) -> int:
        """How many processes share the decoder's layers."""
        return self.values.get("tp_size", 1)

    def server_args(self, sgl: Sglang, folder: str) -> Any:
        """SGLang's `ServerArgs` for the decoder described in `folder`.

        Raises ConfigError if SGLang refuses a value.
        """
        try:
            return editions.checked(sgl, sgl.ServerArgs(model_path=folder, **self.values))
        except (ValueError, TypeError, AssertionError) as error:
            raise ConfigError(f"SGLang {sgl.version} refuses its arguments: {error}") from error


def _check(sgl: Sglang, given: Mapping[str, Any]) -> None:
    fields = get_type_hints(sgl.ServerArgs, include_extras=True)
    for key, value in given.items():
        field = f"server_args.{key}"
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"SGLang {sgl.version} has no server argument {key!r}", hint=hint, field=field
            )
        if key in _SET_HERE:
            raise ConfigError(f"{key!r} cannot be set: {_SET_HERE[key]}", field=field)
        if key in _NOT_DRIVEN or (key in _ALWAYS and key != "load_format"):
            raise ConfigError(
                f"{key!r} cannot be set: the engine drives SGLang without it", field=field
            )
        if key in _COUNTS and not (isinstance(value, int) and value >= _COUNTS[key]):
            raise ConfigError(
                f"{key} is {value!r}; it is a whole number from {_COUNTS[key]} up", field=field
            )
        choices = _choices(fields[key])
        if choices and value is not None and value not in choices:
            raise ConfigError(f"{key} is {value!r}; SGLang knows {', '.join(choices)}", field=field)


def _choices(field: Any) -> list[str]:
    """What SGLang's command line would take for an argument; ServerArgs itself takes anything."""
    listed = (getattr(note, "choices", None) for note in getattr(field, "__metadata__", ()))
    return [str(choice) for choices in listed for choice in choices or ()]


def _load_format(value: Any) -> str:
    try:
        return _LOAD_FORMATS[value]
    except (KeyError, TypeError):
        choices = ", ".join(_LOAD_FORMATS)
        raise ConfigError(
            f"load_format is {value!r}; this engine reads {choices}",
            field="server_args.load_format",
        ) from None
