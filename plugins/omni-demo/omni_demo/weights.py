"""The files of hibari-tts that the stages use, checked before anything of it is imported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path

from omni_host.api import errors

__all__ = [
    "ACOUSTIC_FILES",
    "ALL_FILES",
    "PACKAGE",
    "TEXT_FILES",
    "VERSION",
    "assets",
    "check",
    "check_version",
    "read",
]

PACKAGE = "hibari-tts"
VERSION = "0.2.1"
REINSTALL = f"pip install --force-reinstall {PACKAGE}=={VERSION}"

ACOUSTIC_FILES = {
    "hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
}
TEXT_FILES = {
    "lexicon_us_gold.json.gz": "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2",
    "lexicon_us_silver.json.gz": "c4c2546ebf1eb07010331e7ef785a431aa17ba8e7bfb6b4af8d654ee96a71fd3",
    "normalize.json": "d478ff05404bc43ac3e0468e306674e51085f1b1afc94cdef7c7ea4fb0d56bd8",
    "oov.json": "b462e6e5dbdf0e7346c732385d0dd844f612f1770871441c56932bff4ca75d8c",
    "oov.onnx": "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
    "tagger.json.gz": "d2da7502284bbbe45d49e0b7ce3ce67bdab82254150f4317f1b8559b4d38d0eb",
    "tokenizer_exceptions.json": "ddf3a3da07bdcf5144270ea4530191d8580fb4fd6f5ae93296e87916e795659a",
    "vocab.json": "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
}
ALL_FILES = ACOUSTIC_FILES | TEXT_FILES


def check_version(*, stage: str) -> None:
    """Raise StageStartError unless exactly `VERSION` is installed.

    The adapter uses parts of the package that are no public API, so another version
    may differ in any of them.
    """
    try:
        found = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        found = None
    if found == VERSION:
        return
    state = "it is not installed" if found is None else f"{found} is installed"
    raise errors.StageStartError(
        f"The demo voice needs {PACKAGE} {VERSION}; {state}.",
        hint=f"pip install {PACKAGE}=={VERSION}",
        field=stage,
    )


def assets() -> Path:
    """The folder of the package's data, found without importing it."""
    spec = util.find_spec("hibari")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "assets"


def read(name: str, *, stage: str) -> bytes:
    """The content of one file of `ALL_FILES`. Raises StageStartError if it was changed."""
    path = assets() / name
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise _damaged(path, f"cannot be read: {fault.strerror}", stage) from fault
    if hashlib.sha256(content).hexdigest() != ALL_FILES[name]:
        raise _damaged(path, "is damaged: its sha256 is not the one it was published with", stage)
    return content


def check(files: Mapping[str, str], *, stage: str) -> None:
    """Raise StageStartError for another version of the package or a damaged file."""
    check_version(stage=stage)
    for name in files:
        read(name, stage=stage)


def _damaged(path: Path, what: str, stage: str) -> errors.StageStartError:
    return errors.StageStartError(f"{path} {what}.", hint=REINSTALL, field=stage)
