"""Where a model lies: a folder, or a hub name, and what its `config.json` says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omni_host.errors import ModelError
from omni_host.offers import ModelRef
from omni_host.plugins import hub

__all__ = ["config_names", "is_folder", "is_hub_name", "is_path", "locate"]

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_path(reference: str) -> bool:
    """Is `reference` written as a path? `./demo` is, `demo` is not."""
    return reference.startswith((".", "/", "~", "\\")) or Path(reference).is_absolute()


def is_folder(place: str) -> bool:
    """Is a folder meant, and no name of a hub's?"""
    return is_path(place) or Path(place).exists()


def is_hub_name(reference: str) -> bool:
    """`owner/name`, and no folder of that name here."""
    return HUB_NAME.fullmatch(reference) is not None


def locate(reference: str, place: str, revision: str | None) -> ModelRef:
    """Find `place`, a folder or a hub name, and read its `config.json`, fetching no weights.

    `reference` is what the operator typed. Raises ModelError.
    """
    if is_folder(place):
        folder = _existing(Path(place).expanduser())
        if revision is not None:
            raise ModelError(
                f"'{place}' is a folder: only models of a hub have revisions.",
                hint="take model.revision out of the configuration",
                field="model.revision",
            )
    elif is_hub_name(place):
        folder = hub.fetch_config(place, revision)
    else:
        raise ModelError(
            f"'{place}' is neither an alias of an installed plugin, nor a folder, nor a hub name.",
            hint="omni list-plugins shows aliases; a folder needs a config.json; "
            "a hub name looks like Qwen/Qwen3-TTS",
            field="model",
        )
    return ModelRef(reference=reference, path=folder, config=read_config(folder), revision=revision)


def read_config(folder: Path) -> Mapping[str, Any]:
    """The `config.json` of `folder`. Raises ModelError unless it is what it should be."""
    file = folder / "config.json"
    try:
        config: object = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} has no config.json.",
            hint="name the folder of a model, as downloaded from a hub",
            field="model",
        ) from None
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}.", field="model") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not JSON: {error}.", field="model") from error
    if not isinstance(config, dict):
        raise ModelError(f"{file} holds no JSON object.", field="model")
    checked = cast("dict[str, Any]", config)
    config_names(checked, str(file))
    return checked


def config_names(config: Mapping[str, Any], file: str = "config.json") -> tuple[str, ...]:
    """Its architectures and model_type, which plugins claim. Raises ModelError for bad types."""
    architectures: object = config.get("architectures") or []
    model_type: object = config.get("model_type")
    listed = cast("list[object]", architectures) if isinstance(architectures, list) else [None]
    names = [name for name in listed if isinstance(name, str)]
    if len(names) != len(listed):
        raise ModelError(f"{file}: 'architectures' must be a list of names.", field="model")
    if model_type is not None and not isinstance(model_type, str):
        raise ModelError(f"{file}: 'model_type' must be a name.", field="model")
    return tuple(dict.fromkeys([*names, *([model_type] if model_type else [])]))


def _existing(folder: Path) -> Path:
    if not folder.exists():
        raise ModelError(f"There is no folder {folder}.", hint="check the path", field="model")
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is a file.", hint=f"name its folder: {folder.parent}", field="model"
        )
    return folder.resolve()
