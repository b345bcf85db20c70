from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from omni_host.testing import ModelPluginContract

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def test_the_page_lists_every_check_and_no_other():
    checks = {name for name in dir(ModelPluginContract) if name.startswith("test_")}
    listed = re.findall(r"^\| `(test_\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == checks


def test_the_page_lists_every_attribute_with_its_default():
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    attributes = {name for name in ModelPluginContract.__annotations__ if name in listed}
    assert attributes == ModelPluginContract.__annotations__.keys()
    for name in ("options", "settings", "tolerance", "patience_s"):
        assert listed[name] == f"`{getattr(ModelPluginContract, name)!r}`"


FORGETFUL = """
from omni_host.testing import ModelPluginContract


class TestForgetful(ModelPluginContract):
    pass
"""


def test_a_contract_without_a_model_says_so(tmp_path):
    test = tmp_path / "test_contract.py"
    test.write_text(FORGETFUL)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "says_what_it_is", test],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TestForgetful names no model" in done.stdout
