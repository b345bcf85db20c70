"""The plugin of the README works when its three files are written as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import wave
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def block(language: str, holding: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    (one,) = [text for text in found if holding in text]
    return one


def write_plugin(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(block("toml", "omni-beep"))
    (folder / "omni_beep.py").write_text(block("python", "class Beeper"))
    (folder / "beep").mkdir()
    (folder / "beep" / "config.json").write_text(block("json", "beep"))


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.timeout(600)
def test_the_plugin_of_the_readme_installs_and_speaks(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    site = tmp_path / "site-packages"
    installed = run(tmp_path, "pip", "install", "--no-deps", "--target", str(site), ".")
    assert installed.returncode == 0, installed.stderr
    speak = ("omni_host", "speak", "--model", "./beep", "three beeps, please", "-o", "beeps.wav")
    spoken = run(tmp_path, *speak, PYTHONPATH=str(site))
    assert spoken.returncode == 0, spoken.stderr
    with wave.open(str(tmp_path / "beeps.wav")) as beeps:
        assert beeps.getnframes() == 3 * (4800 + 2400)
        assert beeps.getframerate() == 24_000


def test_the_plugin_of_the_readme_has_about_twenty_lines() -> None:
    lines = [line for line in block("python", "class Beeper").splitlines() if line.strip()]
    assert len(lines) <= 22
