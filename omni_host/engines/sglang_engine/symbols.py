"""Every name of SGLang that this engine relies on, and the versions it is known in.

SGLang is a program rather than a library: these names are public, but they move. The rest
of this package reaches SGLang through the namespace that `load` returns and nowhere else,
so the table below is complete, and a name that has moved is found at start-up.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import warnings
from functools import cache
from typing import Any

from omni_host.engines.sglang_engine import cpu_shims
from omni_host.errors import StageStartError

__all__ = ["NAMES", "NAMES_OF", "VERSIONS", "Sglang", "load"]

VERSIONS = ("0.5.17", "0.5.21")
"""What the tests have run on."""

INSTALL = "omni install-engine sglang"

NAMES: dict[str, str] = {
    # configuration
    "AutoConfig": "transformers:AutoConfig",
    "PretrainedConfig": "transformers:PretrainedConfig",
    "ServerArgs": "sglang.srt.server_args:ServerArgs",
    "publish": "sglang.srt.runtime_context:publish",
    "reset_context": "sglang.srt.runtime_context:reset_context",
    "get_parallel": "sglang.srt.runtime_context:get_parallel",
    "destroy_model_parallel": "sglang.srt.distributed.parallel_state:destroy_model_parallel",
    "destroy_distributed_environment": (
        "sglang.srt.distributed.parallel_state:destroy_distributed_environment"
    ),
    "get_open_port": "sglang.srt.utils.network:get_open_port",
    "ModelRegistry": "sglang.srt.models.registry:ModelRegistry",
    # batches, policy, cache and worker
    "Req": "sglang.srt.managers.schedule_batch:Req",
    "ScheduleBatch": "sglang.srt.managers.schedule_batch:ScheduleBatch",
    "NewTokenRatioTracker": (
        "sglang.srt.managers.scheduler_components.new_token_ratio_tracker:NewTokenRatioTracker"
    ),
    "PrefillAdder": "sglang.srt.managers.schedule_policy:PrefillAdder",
    "AddReqResult": "sglang.srt.managers.schedule_policy:AddReqResult",
    "SamplingParams": "sglang.srt.sampling.sampling_params:SamplingParams",
    "SamplingBatchInfo": "sglang.srt.sampling.sampling_batch_info:SamplingBatchInfo",
    "SpeculativeAlgorithm": "sglang.srt.speculative.spec_info:SpeculativeAlgorithm",
    "TpModelWorker": "sglang.srt.managers.tp_worker:TpModelWorker",
    "ForwardBatch": "sglang.srt.model_executor.forward_batch_info:ForwardBatch",
    "ForwardMode": "sglang.srt.model_executor.forward_batch_info:ForwardMode",
    "RadixCache": "sglang.srt.mem_cache.radix_cache:RadixCache",
    "RadixKey": "sglang.srt.mem_cache.radix_cache:RadixKey",
    "CacheInitParams": "sglang.srt.mem_cache.cache_init_params:CacheInitParams",
    "MatchPrefixParams": "sglang.srt.mem_cache.base_prefix_cache:MatchPrefixParams",
    "maybe_cache_unfinished_req": "sglang.srt.mem_cache.common:maybe_cache_unfinished_req",
    "release_kv_cache": "sglang.srt.mem_cache.common:release_kv_cache",
    "release_req": "sglang.srt.managers.schedule_batch:release_req",
    # layers
    "RMSNorm": "sglang.srt.layers.layernorm:RMSNorm",
    "QKVParallelLinear": "sglang.srt.layers.linear:QKVParallelLinear",
    "MergedColumnParallelLinear": "sglang.srt.layers.linear:MergedColumnParallelLinear",
    "RowParallelLinear": "sglang.srt.layers.linear:RowParallelLinear",
    "ReplicatedLinear": "sglang.srt.layers.linear:ReplicatedLinear",
    "SiluAndMul": "sglang.srt.layers.activation:SiluAndMul",
    "RadixAttention": "sglang.srt.layers.radix_attention:RadixAttention",
    "get_rope": "sglang.srt.layers.rotary_embedding:get_rope",
    "TopK": "sglang.srt.layers.moe.topk:TopK",
    "get_moe_impl_class": "sglang.srt.layers.moe.ep_moe.layer:get_moe_impl_class",
    "ParallelLMHead": "sglang.srt.layers.vocab_parallel_embedding:ParallelLMHead",
    "LogitsProcessor": "sglang.srt.layers.logits_processor:LogitsProcessor",
    "tensor_model_parallel_all_reduce": ("sglang.srt.distributed:tensor_model_parallel_all_reduce"),
}


NAMES_OF: dict[str, dict[str, str]] = {
    "0.5.17": {
        "ParallelState": "sglang.srt.distributed.parallel_state_wrapper:ParallelState",
    },
    "0.5.21": {
        "SpawnRanks": "sglang.srt.runtime_context:SpawnRanks",
        "spawn_world_rank": "sglang.srt.runtime_context:spawn_world_rank",
        "init_parallel_runtime": "sglang.srt.distributed.bootstrap:init_parallel_runtime",
        "init_layer_runtime": "sglang.srt.distributed.bootstrap:init_layer_runtime",
    },
}
"""Names that one version has and another has not."""


class Sglang:
    """The names of `NAMES` and the version's own of `NAMES_OF`, as they are installed."""

    def __init__(self, version: str, found: dict[str, Any]) -> None:
        self.version = version
        self._found = found

    def __getattr__(self, name: str) -> Any:
        try:
            return self._found[name]
        except KeyError:
            raise AttributeError(name) from None


def _installed_version() -> str:
    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        raise StageStartError(
            "The engine sglang was asked for, but SGLang is not installed here", hint=INSTALL
        ) from None
    if version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise StageStartError(
            f"SGLang {version} is installed; this engine runs on {known}", hint=INSTALL
        )
    return version


def _resolve(version: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    missing: list[str] = []
    for name, place in (NAMES | NAMES_OF[version]).items():
        module, _, attribute = place.partition(":")
        try:
            found[name] = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            missing.append(f"{place} ({error})")
    if missing:
        raise StageStartError(
            f"SGLang {version} lacks what this engine relies on: {'; '.join(missing)}",
            hint=INSTALL,
        )
    return found


@cache
def load(device: str) -> Sglang:
    """Import SGLang for this kind of device (`cpu`, `cuda`) and find every name.

    Raises StageStartError if it is not installed, if its version is none of `VERSIONS`,
    or if a name is not where it should be; the message names version and symbol.
    """
    version = _installed_version()
    with warnings.catch_warnings():
        # Importing it warns of every kernel package that this machine does without.
        warnings.simplefilter("ignore")
        logging.getLogger("sglang.srt.models.registry").setLevel(logging.ERROR)
        if device == "cpu":
            cpu_shims.install()
        return Sglang(version, _resolve(version))
