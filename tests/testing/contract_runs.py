"""Contracts of plugins that are installed nowhere but in a site of their own, and their runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PLUGINS = Path(__file__).parent / "bad_plugins"
TIMEOUT_S = 600
LARGE = " " * 2**21


@dataclass(frozen=True, kw_only=True)
class Contract:
    """A contract's class: its name, the plugin it holds to account, and its attributes."""

    name: str
    plugin: str = "toy_voice"
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    patience_s: float = 60.0

    def source(self) -> str:
        return (
            f"class Test{self.name}(ModelPluginContract):\n"
            f"    model = {self.plugin!r}\n"
            f"    options = {dict(self.options)!r}\n"
            f"    patience_s = {self.patience_s!r}\n"
        )


class Site:
    """A folder of distributions for `PYTHONPATH`, one for each plugin of `bad_plugins`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PLUGINS, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def install(self, plugin: str) -> None:
        """Write what pip would have, and the folder that the plugin's alias leads to."""
        architecture = f"{plugin.title().replace('_', '')}ForSpeech"
        claims = {plugin: plugin, architecture: plugin}
        if plugin == "unclaimed":
            del claims[architecture]
        if plugin == "astray":
            claims["lost"] = plugin
        if plugin == "orphaned":
            claims["orphan"] = "no_plugin"
        metadata = self.folder / f"omni_{plugin}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: omni-{plugin.replace('_', '-')}\nVersion: 1.0\n")
        lines = [f"{name} = {module}" for name, module in claims.items()]
        text = f"[omni_host.plugins]\n{plugin} = {plugin}\n[omni_host.models]\n" + "\n".join(lines)
        (metadata / "entry_points.txt").write_text(text)
        model = self.folder / "models" / plugin
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps({"architectures": [architecture]}))
        (model / "model.safetensors").write_bytes(b"weights")
        (model / "table.json").write_text(LARGE)


def run(folder: Path, contracts: Mapping[Contract, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Run the named checks of contracts, or all where none is named, in a pytest of its own.

    Returns the outcomes by contract and check.
    """
    site = Site(folder / "site")
    for plugin in sorted({contract.plugin for contract in contracts}):
        site.install(plugin)
    test = folder / "test_contracts.py"
    classes = "\n\n".join(contract.source() for contract in contracts)
    test.write_text(f"from omni_host.testing import ModelPluginContract\n\n\n{classes}")
    chosen = [
        f"{test}::Test{contract.name}{f'::test_{check}' if check else ''}"
        for contract, checks in contracts.items()
        for check in sorted(checks) or ("",)
    ]
    report = folder / "report.xml"
    arguments = ["-c", os.devnull, f"--rootdir={folder}", f"--junit-xml={report}", "-W", "error"]
    with tempfile.TemporaryDirectory(prefix="omnikit-", dir="/tmp") as temporary:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, *chosen],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(site.folder), "TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return _outcomes(report)


def _outcomes(report: Path) -> dict[str, dict[str, str]]:
    outcomes: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        contract = case.attrib["classname"].rpartition(".Test")[2]
        check = case.attrib["name"].removeprefix("test_")
        outcomes.setdefault(contract, {})[check] = max(kinds, default="passed")
    return outcomes
