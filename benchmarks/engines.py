"""Milliseconds a decode step: the engines beside transformers' own decoder.

    OMP_NUM_THREADS=1 python benchmarks/engines.py [--rounds 5] [--steps 40]

A random Qwen3 of about 40 million parameters is written to a temporary folder. Every
engine has a process of its own; they take turns within a round, so a busy machine slows
all alike. All decode greedily from the same prompts, and have to give the same tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

RESULTS = Path(__file__).parent / "results" / "engines.json"
BATCHES = (1, 4, 16)
PROMPT_ROWS = 64
MODEL: Mapping[str, Any] = {
    "hidden_size": 512,
    "num_hidden_layers": 10,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 1536,
    "vocab_size": 8192,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
TARGETS = {
    "torch": ("omni_host.engines.torch_engine", "TorchEngine", {"max_total_rows": 4096}),
    "sglang": ("omni_host.engines.sglang_engine", "SglangEngine", {"max_total_tokens": 4096}),
}


class Decoder(Protocol):
    """One way to decode."""

    def run(self, batch: int, steps: int) -> tuple[list[float], list[list[int]]]:
        """Milliseconds of each decode step, and every sequence's tokens."""
        ...


def main() -> int:
    options = _options()
    if options.worker:
        return _work(options.worker, options.folder)
    with tempfile.TemporaryDirectory() as folder:
        parameters = _write_model(folder)
        workers = {name: _start(name, folder) for name in options.engines}
        times, same = _measure(workers, options.rounds, options.steps)
        for worker in workers.values():
            worker.communicate(timeout=60)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "threads": os.environ.get("OMP_NUM_THREADS", "unset"),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "model": {**MODEL, "parameters": parameters},
        "prompt_rows": PROMPT_ROWS,
        "rounds": options.rounds,
        "steps": options.steps,
        "same_tokens": same,
        "milliseconds_a_step": {
            str(batch): {name: _summary(samples) for name, samples in by_engine.items()}
            for batch, by_engine in times.items()
        },
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    _show(result)
    return int(not same)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    installed = [name for name in TARGETS if name != "sglang" or find_spec("sglang")]
    parser.add_argument("--engines", nargs="+", default=["transformers", *installed])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def _write_model(folder: str) -> int:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    # Wider than trained models start, so that greedy choices have clear winners.
    model = Qwen3ForCausalLM(Qwen3Config(**MODEL, initializer_range=0.05))
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def _start(name: str, folder: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", name, "--folder", folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _measure(
    workers: Mapping[str, subprocess.Popen[str]], rounds: int, steps: int
) -> tuple[dict[int, dict[str, list[float]]], bool]:
    times = {batch: {name: [] for name in workers} for batch in BATCHES}
    same = True
    for turn in range(rounds + 1):
        for batch in BATCHES:
            tokens = []
            for name, worker in workers.items():
                answer = _ask(name, worker, batch, steps)
                tokens.append(answer["tokens"])
                if turn:  # the first is for warming up
                    times[batch][name] += answer["milliseconds"]
            same = same and all(one == tokens[0] for one in tokens)
    return times, same


def _ask(name: str, worker: subprocess.Popen[str], batch: int, steps: int) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps({"batch": batch, "steps": steps}) + "\n")
    worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise SystemExit(f"the worker of {name} ended early")


def _work(name: str, folder: str) -> int:
    decoder = _Transformers(folder) if name == "transformers" else _Engine(name, folder)
    for line in sys.stdin:
        milliseconds, tokens = decoder.run(**json.loads(line))
        print(json.dumps({"milliseconds": milliseconds, "tokens": tokens}), flush=True)
    return 0


def _prompts(batch: int) -> list[list[int]]:
    return [[(7 * row + 131 * at) % 8192 for row in range(PROMPT_ROWS)] for at in range(batch)]


class _Transformers:
    """The model as transformers runs it, with its own cache, all prompts of one length."""

    def __init__(self, folder: str) -> None:
        from transformers import Qwen3ForCausalLM

        self._model = Qwen3ForCausalLM.from_pretrained(folder).eval()

    def run(self, batch: int, steps: int) -> tuple[list[float], list[list[int]]]:
        import torch
        from transformers import DynamicCache

        milliseconds: list[float] = []
        produced: list[list[int]] = []
        ids = torch.tensor(_prompts(batch))
        cache = DynamicCache(config=self._model.config)
        with torch.inference_mode():
            for _ in range(steps + 1):
                started = time.perf_counter()
                outputs = self._model(ids, past_key_values=cache, logits_to_keep=1)
                ids = outputs.logits[:, -1].argmax(-1, keepdim=True)
                produced.append(ids[:, 0].tolist())
                milliseconds.append((time.perf_counter() - started) * 1e3)
        return milliseconds[1:], [list(column) for column in zip(*produced, strict=True)]


class _Program:
    """Prompts of ids, embedded as the decoder itself embeds."""

    def __init__(self, folder: str) -> None:
        from safetensors import safe_open

        with safe_open(Path(folder) / "model.safetensors", framework="pt") as file:
            self._embedding = file.get_tensor("model.embed_tokens.weight")

    def prompt(self, request: Sequence[int]) -> Any:
        from omni_host.engines import Prompt

        return Prompt(rows=self._embedding[list(request)])

    def next_row(self, state: Any) -> None:
        return None


class _Engine:
    """One of omni-host's engines."""

    def __init__(self, name: str, folder: str) -> None:
        from importlib import import_module

        from omni_host.engines import EngineBuild

        module, kind, arguments = TARGETS[name]
        decoder, self._policy = _specs()
        self._runs = 0
        self._engine = getattr(import_module(module), kind)(
            EngineBuild(
                decoder=decoder,
                frame=None,
                sampling=self._policy,
                program=_Program(folder),
                weights=folder,
                server_args=arguments,
            )
        )

    def run(self, batch: int, steps: int) -> tuple[list[float], list[list[int]]]:
        from omni_host.engines import DecodeRequest

        self._runs += 1
        tokens: dict[str, list[int]] = {}
        for at, prompt in enumerate(_prompts(batch)):
            tokens[name := f"{self._runs}/{at}"] = []
            self._engine.submit(
                DecodeRequest(id=name, request=prompt, sampling=self._policy, max_frames=steps + 1)
            )
        milliseconds: list[float] = []
        while self._engine.inside:
            decodes = all(tokens.values())
            started = time.perf_counter()
            outputs = self._engine.step()
            if decodes:
                milliseconds.append((time.perf_counter() - started) * 1e3)
            for output in outputs:
                tokens[output.id] += output.codes or ()
        return milliseconds, list(tokens.values())


def _specs() -> tuple[Any, Any]:
    from omni_host.engines import Attention, DecoderSpec, DenseMlp, Head, Rope, SamplingPolicy
    from omni_host.engines.layouts import transformers_weights

    decoder = DecoderSpec(
        width=MODEL["hidden_size"],
        attention=Attention(
            heads=MODEL["num_attention_heads"],
            kv_heads=MODEL["num_key_value_heads"],
            head_dim=MODEL["head_dim"],
            qk_norm=True,
        ),
        rope=Rope(theta=10000.0),
        mlps=(DenseMlp(intermediate=MODEL["intermediate_size"]),) * MODEL["num_hidden_layers"],
        weights=transformers_weights(
            "model.", embedding="model.embed_tokens.weight", head="lm_head.weight"
        ),
        vocabulary=MODEL["vocab_size"],
        head=Head(vocabulary=MODEL["vocab_size"]),
        max_positions=MODEL["max_position_embeddings"],
    )
    return decoder, SamplingPolicy(temperature=0.0)


def _summary(samples: Sequence[float]) -> dict[str, float]:
    ranked = statistics.quantiles(samples, n=10)
    return {
        "median": round(statistics.median(samples), 2),
        "p10": round(ranked[0], 2),
        "p90": round(ranked[-1], 2),
    }


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _show(result: Mapping[str, Any]) -> None:
    for batch, by_engine in result["milliseconds_a_step"].items():
        for name, summary in by_engine.items():
            numbers = "  ".join(f"{key} {value:7.2f}" for key, value in summary.items())
            print(f"batch {batch:>2}  {name:<13} {numbers} ms")
    print("all gave the same tokens" if result["same_tokens"] else "TOKENS DIFFER")


if __name__ == "__main__":
    raise SystemExit(main())
