"""The model hub, through `huggingface_hub` (extra `omni-host[hub]`), which is imported here alone.

The local cache is asked first; `HF_HUB_OFFLINE=1` keeps it at that.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from omni_host.errors import ModelError

__all__ = ["fetch_config", "fetch_files"]


def fetch_config(name: str, revision: str | None) -> Path:
    """The cache folder of the model with its `config.json` in it, and maybe nothing else.

    Raises ModelError.
    """
    library = _library(name)
    from_hub = library.hf_hub_download
    try:
        try:
            file = from_hub(name, "config.json", revision=revision, local_files_only=True)
        except library.errors.LocalEntryNotFoundError:
            file = from_hub(name, "config.json", revision=revision)
    except _documented(library) as error:
        raise _model_error(library, name, revision, error) from error
    return Path(file).parent


def fetch_files(name: str, snapshot: Path) -> None:
    """Bring the other files into the folder that `fetch_config` gave, of the same commit.

    A download that stopped is resumed; nothing is asked of the hub when all is there.
    Raises ModelError.
    """
    library = _library(name)
    commit = snapshot.name
    try:
        library.snapshot_download(name, revision=commit)
    except _documented(library) as error:
        raise _model_error(library, name, commit, error) from error
    # Offline, the library takes the folder as it is if it never saw the list of files.
    if {file.name for file in snapshot.iterdir()} == {"config.json"}:
        raise _not_reachable(name, "")


def _library(name: str) -> Any:
    try:
        library = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.errors")
    except ImportError:
        raise ModelError(
            f"'{name}' is the name of a model on a hub, and huggingface_hub is not installed.",
            hint="pip install 'omni-host[hub]'",
            field="model",
        ) from None
    return library


def _documented(library: Any) -> tuple[type[Exception], ...]:
    """What a download may raise: network, disk, bad names, and the hub's own answers."""
    errors = library.errors
    return (OSError, ValueError, errors.EntryNotFoundError, errors.HfHubHTTPError)


def _model_error(library: Any, name: str, revision: str | None, error: Exception) -> ModelError:
    at = f" at revision '{revision}'" if revision else ""
    errors = library.errors
    if isinstance(error, errors.GatedRepoError):
        return ModelError(
            f"Access to '{name}' must be granted by its authors.",
            hint="accept its terms on the hub, then: hf auth login",
            field="model",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return ModelError(
            f"The hub has no model '{name}' that you may read.", hint="hf auth login", field="model"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelError(f"'{name}' has no revision '{revision}'.", field="model.revision")
    if isinstance(error, errors.LocalEntryNotFoundError):
        return _not_reachable(name, at)
    if isinstance(error, errors.EntryNotFoundError):
        return ModelError(f"'{name}'{at} has no config.json.", field="model")
    # What the library says runs over several lines.
    reason = " ".join(str(error).split())
    return ModelError(
        f"'{name}'{at} cannot be fetched: {reason}",
        hint="check the network, and that HF_HUB_OFFLINE is not set",
        field="model",
    )


def _not_reachable(name: str, at: str) -> ModelError:
    return ModelError(
        f"'{name}'{at} is not whole in the local cache, and the hub cannot be reached.",
        hint="check the network, and that HF_HUB_OFFLINE is not set",
        field="model",
    )
