"""What has to hold inside a `DecoderSpec`, whichever engine runs it."""

from __future__ import annotations

from omni_host.engines.decoder import DecoderSpec
from omni_host.errors import ConfigError

__all__ = ["check_decoder"]


def check_decoder(spec: DecoderSpec, *, field: str) -> None:
    """Check a spec against itself; `field` is its name in errors.

    Raises ConfigError that names the field at fault.
    """
    sizes, rope = spec.attention, spec.rope
    layers, half = spec.layers, sizes.head_dim // 2
    rules = {
        "mlps": (layers > 0, "at least one layer"),
        "attention.heads": (sizes.heads % sizes.kv_heads == 0, "a multiple of kv_heads"),
        "attention.head_dim": (sizes.head_dim % 2 == 0, "even"),
        "attention.windows": (len(sizes.windows) in {0, layers}, "one window a layer, or none"),
        "rope.sections": (
            not rope.sections or (len(rope.sections) == 3 and sum(rope.sections) == half),
            f"three counts that add up to {half}, half of head_dim",
        ),
        "inject_after": (all(0 <= at < layers for at in spec.inject_after), "layers it has"),
        "capture": (all(-1 <= at < layers for at in spec.capture), "layers it has, or -1"),
        "head": (
            spec.head is None or not spec.head.tied or spec.head.vocabulary <= spec.vocabulary,
            "tied to an embedding that has a row for every score",
        ),
    }
    for name, (holds, rule) in rules.items():
        if not holds:
            value = spec
            for part in name.split("."):
                value = getattr(value, part)
            raise ConfigError(
                f"{field}.{name} is {value}: it must be {rule}", field=f"{field}.{name}"
            )
