"""Where the versions of SGLang that this engine knows differ.

0.5.17 builds its process groups with the model and keeps a request's place in the pools on
the request; 0.5.21 builds the groups first, resolves arguments on demand, and keeps the
place in a record of its own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from omni_host.engines.sglang_engine.symbols import Sglang

__all__ = ["checked", "place", "ratio_tracker", "resolved", "retraction", "tp_model_worker"]

_FIRST = "0.5.17"


def checked(sgl: Sglang, args: Any) -> Any:
    """The same arguments, checked and completed by SGLang; raises what it raises."""
    if sgl.version != _FIRST:
        args.resolve_once()
    return args


def resolved(sgl: Sglang, args: Any) -> Any:
    """To be read: the arguments with SGLang's own choices filled in."""
    if sgl.version == _FIRST:
        return args
    return SimpleNamespace(**args.resolved_dict())


def tp_model_worker(sgl: Sglang, args: Any, rank: int, port: int) -> Any:
    """Publish the arguments, join the other ranks, build the model and load it."""
    gpu = args.base_gpu_id + rank
    if sgl.version == _FIRST:
        sgl.publish(args, role="scheduler")
        state = sgl.ParallelState.trivial(
            tp_rank=rank,
            tp_size=args.tp_size,
            attn_tp_rank=rank,
            attn_tp_size=args.tp_size,
            gpu_id=gpu,
            dp_rank=None,
            moe_dp_rank=None,
        )
        return sgl.TpModelWorker(server_args=args, gpu_id=gpu, ps=state, nccl_port=port)
    world = sgl.spawn_world_rank(args, tp_rank=rank, pp_rank=0)
    sgl.publish(args, role="scheduler", ranks=sgl.SpawnRanks(world_rank=world, gpu_id=gpu))
    sgl.init_parallel_runtime(server_args=args, device=args.device, dist_port=port)
    worker = sgl.TpModelWorker(server_args=args, gpu_id=gpu, nccl_port=port)
    sgl.init_layer_runtime(model_config=worker.model_config)
    return worker


def place(sgl: Sglang, req: Any) -> Any:
    """What says where a request's rows are: `req_pool_idx`, `kv_committed_len` and
    `cache_protected_len`."""
    return req if sgl.version == _FIRST else req.kv


def retraction(sgl: Sglang, args: Any) -> dict[str, Any]:
    """What retracting asks for besides the request."""
    return {"server_args": args} if sgl.version == _FIRST else {}


def ratio_tracker(sgl: Sglang, args: Any) -> Any:
    """SGLang's estimate of how much of their frames requests use."""
    tracker = sgl.NewTokenRatioTracker
    return tracker.from_server_args(args) if sgl.version == _FIRST else tracker.from_config()
