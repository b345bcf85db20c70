"""`omni install-engine`: put an engine's packages into this environment, as they fit this machine.

pip alone cannot: SGLang's wheel names several gigabytes of CUDA packages whatever the
machine, so it goes in without its dependencies, after a list of those that are used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from omni_host.cli.options import shared_options
from omni_host.errors import OmniError

__all__ = ["FLAVOURS", "Flavour", "commands", "install_engine"]

SGLANG = "sglang==0.5.17"
IMPORTED_EVERYWHERE = (
    "transformers==5.12.1",
    "numpy",
    "safetensors",
    "aiohttp",
    "compressed-tensors==0.18.0",
    "dill",
    "einops",
    "fastapi",
    "gguf",
    "msgspec",
    "openai==2.6.1",
    "orjson",
    "partial-json-parser",
    "pillow",
    "psutil",
    "pybase64",
    "pydantic",
    "pyzmq",
    "requests",
    "sentencepiece",
    "setproctitle",
    "uvicorn",
    "uvloop",
)
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """What one kind of machine needs.

    Attributes:
        device: what the engine is told, in torch's spelling.
        torch: the version that is installed where none fits.
        fitting: torch versions that stay as they are.
        torch_index: where its wheels are, or None for pip's own index.
        packages: what SGLang imports there.
    """

    device: str
    torch: str
    fitting: tuple[str, ...]
    torch_index: str | None
    packages: tuple[str, ...]


FLAVOURS = {
    "cpu": Flavour(
        device="cpu",
        torch="2.13.0",
        fitting=("2.11.0", "2.13.0"),
        torch_index=CPU_WHEELS if sys.platform == "linux" else None,
        packages=IMPORTED_EVERYWHERE,
    ),
    "nvidia": Flavour(
        device="cuda",
        torch="2.11.0",
        fitting=("2.11.0",),
        torch_index=None,
        packages=(
            *IMPORTED_EVERYWHERE,
            "sglang-kernel==0.4.5",
            "flashinfer-python==0.6.15.post1",
            "apache-tvm-ffi==0.1.11",
            "xgrammar==0.2.1",
            "nvidia-ml-py",
            "ninja",
            "IPython",
            "torchvision",
        ),
    ),
}


@click.command()
@click.argument("engine", type=click.Choice(["sglang"]))
@click.option(
    "--for",
    "machine",
    type=click.Choice(["auto", *FLAVOURS]),
    default="auto",
    show_default=True,
    help="The kind of machine.",
)
@click.option("--torch-index", metavar="URL", help="Where else to look for torch.")
@click.option("--dry-run", is_flag=True, help="Print the commands and run none of them.")
@shared_options
def install_engine(*, engine: str, machine: str, torch_index: str | None, dry_run: bool) -> None:
    """Install ENGINE into the environment that omni runs in.

    A torch that fits is left alone. The commands are printed as they run, and in the end
    the engine is imported once to see that it works.
    """
    name = _this_machine() if machine == "auto" else machine
    flavour = FLAVOURS[name]
    if not dry_run:
        click.echo(f"Installing {engine} for {name} into {sys.prefix}", err=True)
    for command in commands(flavour, torch_index):
        click.echo(shlex.join(command))
        if not dry_run:
            _run(command)
    if not dry_run:
        click.echo(f"{engine} is installed and imports on {flavour.device}.", err=True)


def commands(flavour: Flavour, torch_index: str | None = None) -> list[list[str]]:
    """What has to run, in order: torch if none fits, what SGLang imports, SGLang, the check."""
    pip = _pip()
    steps: list[list[str]] = []
    present = _installed("torch")
    if present is None or present.partition("+")[0] not in flavour.fitting:
        index = torch_index or flavour.torch_index
        where = ["--extra-index-url", index] if index else []
        steps.append([*pip, *where, f"torch=={flavour.torch}"])
        present = flavour.torch
    # Naming the torch that is there keeps other packages from replacing it.
    steps.append([*pip, f"torch=={present}", *flavour.packages])
    steps.append([*pip, "--no-deps", SGLANG])
    check = "from omni_host.engines.sglang_engine.symbols import load; load({!r})"
    steps.append([sys.executable, "-c", check.format(flavour.device)])
    return steps


def _this_machine() -> str:
    nvidia = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    return "nvidia" if nvidia else "cpu"


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pip() -> list[str]:
    """pip of this environment, or uv where an environment has none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    raise OmniError(
        "This environment has no pip, and there is no uv either",
        hint=f"{shlex.quote(sys.executable)} -m ensurepip",
    )


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603 - our own list, no shell
    if done.returncode != 0:
        raise OmniError(
            f"A command ended with exit code {done.returncode}: {shlex.join(command)}",
            hint="run it by hand to see more; omni install-engine may be repeated",
        )
