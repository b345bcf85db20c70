"""The plugin of the README works when its three files are written as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import wave
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def block(language: str, holding: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    (one,) = [text for text in found if holding in text]
    return one


def write_plugin(folder: Path) -> None:
    """What `pip install -e .` leaves: a module on the path, and its metadata."""
    project = tomllib.loads(block("toml", "omni-beep"))["project"]
    (folder / "omni_beep.py").write_text(block("python", "class Beeper"))
    metadata = folder / f"omni_beep-{project['version']}.dist-info"
    metadata.mkdir()
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (metadata / "METADATA").write_text("Name: omni-beep\nVersion: 0.1.0\n")
    (folder / "beep").mkdir()
    (folder / "beep" / "config.json").write_text(block("json", "beep"))


def test_the_plugin_of_the_readme_speaks(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    command = [sys.executable, "-m", "omni_host", "speak", "--model", "./beep"]
    done = subprocess.run(
        [*command, "three beeps, please", "-o", "beeps.wav"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with wave.open(str(tmp_path / "beeps.wav")) as beeps:
        assert beeps.getnframes() == 3 * (4800 + 2400)
        assert beeps.getframerate() == 24_000


def test_the_plugin_of_the_readme_has_about_twenty_lines() -> None:
    lines = [line for line in block("python", "class Beeper").splitlines() if line.strip()]
    assert len(lines) <= 22
