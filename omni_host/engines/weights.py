"""Weights by name: from safetensors files, or drawn from a seed.

A `Weights` gives tensors on the engine's device in its dtype; only what is asked for is
read. Engines ask by canonical name (`omni_host.engines.decoder`) through `DecoderWeights`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from omni_host.engines.decoder import TensorSource, WeightMap
from omni_host.errors import StageStartError

__all__ = ["CheckpointWeights", "DecoderWeights", "DummyWeights", "Weights", "open_weights"]

_INDEX = "model.safetensors.index.json"
_STORED = {"F32", "F16", "BF16"}


class Weights(Protocol):
    """Where tensors come from."""

    device: torch.device
    dtype: torch.dtype

    def take(self, source: TensorSource, shape: tuple[int, ...], name: str) -> Tensor:
        """The tensor, of exactly this shape; `name` is what it is to whoever asks.

        Raises StageStartError that names tensor and file if it is absent or of another shape.
        """
        ...


def open_weights(
    folder: str, *, device: str, dtype: torch.dtype, load_format: str, seed: int
) -> Weights:
    """`load_format` is `safetensors`, or `dummy`, which needs no folder and draws from `seed`."""
    if load_format == "dummy":
        return DummyWeights(device=torch.device(device), dtype=dtype, seed=seed)
    return CheckpointWeights(Path(folder), device=torch.device(device), dtype=dtype)


class CheckpointWeights:
    """A folder with one safetensors file, or with shards and an index.

    A tensor that is taken twice and still in use is one tensor: tied heads cost nothing.
    """

    def __init__(self, folder: Path, *, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype
        self._folder = folder
        self._files = _files_of_tensors(folder)
        self._open: dict[Path, Any] = {}
        self._taken: WeakValueDictionary[TensorSource, Tensor] = WeakValueDictionary()

    def take(self, source: TensorSource, shape: tuple[int, ...], name: str) -> Tensor:
        path = self._files.get(source.name)
        if path is None:
            raise StageStartError(
                f"{self._folder} has no tensor {source.name!r} ({name})",
                hint="check that the folder holds the checkpoint that the model's plugin expects",
            )
        part = self._slice(path, source.name)
        if part.get_dtype() not in _STORED:
            raise StageStartError(
                f"{source.name!r} in {path} is stored as {part.get_dtype()}; "
                f"known are {', '.join(sorted(_STORED))}"
            )
        start, stop = source.rows or (0, part.get_shape()[0])
        found = (min(stop, part.get_shape()[0]) - start, *part.get_shape()[1:])
        if tuple(found) != shape:
            raise StageStartError(
                f"{source.name!r} in {path} is {list(part.get_shape())}: {name} needs "
                f"{list(shape)}" + (f" in rows {start} to {stop}" if source.rows else "")
            )
        if (taken := self._taken.get(source)) is None:
            taken = part[start:stop].to(device=self.device, dtype=self.dtype)
            self._taken[source] = taken
        return taken

    def _slice(self, path: Path, tensor: str) -> Any:
        if path not in self._open:
            self._open[path] = safe_open(path, framework="pt")
        try:
            return self._open[path].get_slice(tensor)
        except SafetensorError as error:
            raise StageStartError(
                f"{path} has no tensor {tensor!r}, though its index says so"
            ) from error


def _files_of_tensors(folder: Path) -> dict[str, Path]:
    """Tensor name -> file, from the index or else from the header of every file."""
    if not folder.is_dir():
        raise StageStartError(f"{folder} is no folder, so there are no weights in it")
    index = folder / _INDEX
    if index.is_file():
        return _indexed(index)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise StageStartError(f"{folder} has neither *.safetensors nor {_INDEX}")
    return {name: path for path in files for name in _header(path) if name != "__metadata__"}


def _indexed(index: Path) -> dict[str, Path]:
    try:
        placed: Mapping[str, str] = json.loads(index.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise StageStartError(f"{index} is no index of safetensors shards: {error}") from error
    missing = sorted({name for name in placed.values() if not (index.parent / name).is_file()})
    if missing:
        raise StageStartError(f"{index} names files that are not there: {', '.join(missing)}")
    return {tensor: index.parent / name for tensor, name in placed.items()}


def _header(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            return json.loads(file.read(length))
    except (ValueError, struct.error, MemoryError, OverflowError) as error:
        raise StageStartError(f"{path} is no safetensors file: {error}") from error


class DummyWeights:
    """Weights drawn on the device: each tensor from the seed and its own name.

    Matrices have variance 1/columns, so activations keep their size; norms are near 1,
    biases near 0.
    """

    def __init__(self, *, device: torch.device, dtype: torch.dtype, seed: int) -> None:
        self.device = device
        self.dtype = dtype
        self._seed = seed

    def take(self, source: TensorSource, shape: tuple[int, ...], name: str) -> Tensor:
        label = f"{self._seed} {source.name} {source.rows or ''}"
        generator = torch.Generator(device=self.device)
        generator.manual_seed(zlib.crc32(label.encode()))
        drawn = torch.randn(shape, generator=generator, device=self.device, dtype=torch.float32)
        if name.endswith("norm"):
            drawn = 1.0 + 0.1 * drawn
        elif len(shape) == 1:
            drawn = 0.1 * drawn
        elif "embedding" not in name:
            drawn = drawn / math.sqrt(shape[-1])
        return drawn.to(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """A decoder's weights by canonical name."""

    weights: Weights
    names: WeightMap

    def take(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        layer: int | None = None,
        expert: int | None = None,
    ) -> Tensor:
        """The weight with this canonical template.

        Raises StageStartError if the map lacks it, or as `Weights.take` does.
        """
        filled = name.format(layer=layer, expert=expert)
        try:
            source = self.names.locate(name, layer=layer, expert=expert)
        except KeyError as error:
            raise StageStartError(
                f"the decoder's weight map does not say where {name!r} is"
            ) from error
        return self.weights.take(source, shape, filled)
