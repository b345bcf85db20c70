"""How SGLang learns of a decoder: a configuration of our own, and a folder that holds it.

SGLang builds models from a folder with a `config.json`. The one written here describes the
decoder's spec, not the checkpoint: the class it names (`model.OmniDecoder`) takes the spec
from it and reads the checkpoint itself, by the spec's map of names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from omni_host.engines.decoder import DecoderSpec

__all__ = ["ARCHITECTURE", "MODEL_TYPE", "Description", "described"]

ARCHITECTURE = "OmniDecoder"
MODEL_TYPE = "omni_decoder"

_FILE = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """All that the model class needs to build and load itself, as plain data.

    Attributes:
        decoder: the spec.
        weights: the checkpoint's folder.
        load_format: `safetensors` or `dummy`.
        seed: of dummy weights.
        device: its kind, `cpu` or `cuda`; the process has chosen which of them.
        candidates: the ids that the head scores, ascending; None for all of them.
        slots: the most rows of one decode step.
    """

    decoder: DecoderSpec
    weights: str
    load_format: str
    seed: int
    device: str
    candidates: tuple[int, ...] | None
    slots: int

    @property
    def scored(self) -> int:
        """How many scores the head gives."""
        assert self.decoder.head is not None
        return len(self.candidates) if self.candidates else self.decoder.head.vocabulary

    def write(self, folder: Path) -> None:
        """Write the `config.json` that SGLang reads; `described` is the inverse."""
        spec = self.decoder
        config = {
            "architectures": [ARCHITECTURE],
            "model_type": MODEL_TYPE,
            "hidden_size": spec.width,
            "num_hidden_layers": spec.layers,
            "num_attention_heads": spec.attention.heads,
            "num_key_value_heads": spec.attention.kv_heads,
            "head_dim": spec.attention.head_dim,
            "intermediate_size": max(mlp.intermediate for mlp in spec.mlps),
            "vocab_size": self.scored,
            "max_position_embeddings": spec.max_positions,
            "tie_word_embeddings": False,
            "omni": _DESCRIPTION.dump_python(self, mode="json"),
        }
        (folder / _FILE).write_text(json.dumps(config))


_DESCRIPTION = TypeAdapter(Description)


def described(omni: Mapping[str, Any]) -> Description:
    """The description that stands under `omni` in the configuration."""
    return _DESCRIPTION.validate_python(omni, strict=False)
