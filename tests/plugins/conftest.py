"""A site of fake distributions, each in a folder of its own on `sys.path`."""

from __future__ import annotations

import importlib
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

import omni_host
from omni_host.plugins import Discovery, Plugins, discover

PREAMBLE = """
from omni_host.api import *
from omni_host.api import hookimpl
"""
GOOD_BODY = """
@hookimpl
def build_stages(model, options, platform):
    return StageGraph(
        stages=(StageSpec(name="voice", target="nowhere:Voice", server_args={"width": 4}),),
        tasks=(Task(name="speech", entry=("voice",), outputs=(Output(stage="voice",
            modality="audio", sample_rate=24000),)),),
    )
"""

BARRED = {"torch", "transformers", "sglang"}
"""What tests of engines may have left in this process, and a host never has."""


class Site:
    """Writes distributions, and discovers and loads what it wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders: list[Path] = []

    def distribution(
        self,
        name: str,
        *,
        version: str = "1.0",
        entry_points: str | Mapping[str, Mapping[str, str]] = "",
        modules: Mapping[str, str] | None = None,
        folder: str | None = None,
        kind: str = "dist-info",
        developed: bool = False,
    ) -> Path:
        """Write one, installed or as its developer has it, and return its metadata folder."""
        place = self.root / ("src" if developed else "site-packages")
        place /= folder or f"site-{len(self.folders):03}-{name}-{version}"
        metadata = place / f"{name.replace('-', '_')}-{version}.{kind}"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        text = entry_points if isinstance(entry_points, str) else as_text(entry_points)
        if text:
            (metadata / "entry_points.txt").write_text(text)
        for module, source in (modules or {}).items():
            (place / f"{module}.py").write_text(textwrap.dedent(source))
        if place not in self.folders:
            self.folders.append(place)
            sys.path.insert(0, str(place))
        importlib.invalidate_caches()
        return metadata

    def plugin(
        self,
        name: str,
        body: str = "",
        *,
        info: str | None = None,
        claims: Mapping[str, tuple[str, ...]] | None = None,
        version: str = "1.0",
        distribution: str | None = None,
        developed: bool = False,
    ) -> Path:
        """A distribution `omni-NAME` with one plugin in the module `omni_NAME`."""
        distribution = distribution or f"omni-{name}"
        module = distribution.replace("-", "_")
        groups = {"omni_host.plugins": {name: module}}
        for group, names in (claims or {}).items():
            groups[f"omni_host.{group}"] = dict.fromkeys(names, module)
        info = info or f"PLUGIN = PluginInfo(name={name!r}, summary='the {name} plugin')\n"
        source = PREAMBLE + info + textwrap.dedent(body)
        return self.distribution(
            distribution,
            version=version,
            entry_points=groups,
            modules={module: source},
            developed=developed,
        )

    def family(self, name: str, *names: str, body: str = GOOD_BODY) -> Path:
        """A plugin that builds models and claims `names`."""
        return self.plugin(name, body, claims={"models": names})

    def host(self) -> Path:
        """The host's own distribution, as `pyproject.toml` declares it."""
        pyproject = Path(omni_host.__file__).parents[1] / "pyproject.toml"
        project = tomllib.loads(pyproject.read_text())["project"]
        return self.distribution(
            "omni-host", version=omni_host.__version__, entry_points=project["entry-points"]
        )

    def discover(self) -> Discovery:
        return discover([str(folder) for folder in self.folders])

    def load(self, **lists: tuple[str, ...]) -> Plugins:
        return Plugins.load(self.discover(), **lists)

    def model(self, name: str, config: str) -> Path:
        """A model folder with a `config.json`."""
        folder = self.root / "models" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(config)
        return folder


def as_text(entry_points: Mapping[str, Mapping[str, str]]) -> str:
    lines: list[str] = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""]
    return "\n".join(lines)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in sys.modules if name.partition(".")[0] in BARRED]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        if _is_below(sys.modules[name], tmp_path):
            del sys.modules[name]


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)
