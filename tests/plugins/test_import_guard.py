from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from omni_host.plugins import import_guard


def test_find_spec_still_tells_what_is_installed(site, monkeypatch):
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    site.distribution("sglang", modules={"sglang": ""})
    with import_guard.guarded():
        assert importlib.util.find_spec("sglang") is not None
        assert importlib.util.find_spec("no_such_package") is None
        with pytest.raises(ImportError, match="the host process never imports sglang"):
            importlib.import_module("sglang")


def test_the_guard_ends_with_its_block(site, monkeypatch):
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    site.distribution("sglang", modules={"sglang": ""})
    before = list(sys.meta_path)
    with import_guard.guarded(), import_guard.guarded():
        assert sys.meta_path != before
    assert sys.meta_path == before
    importlib.import_module("sglang")


def test_an_installed_guard_stays(site):
    site.distribution("transformers", modules={"transformers": ""})
    code = (
        f"import sys; sys.path.insert(0, {str(site.folders[0])!r})\n"
        "from omni_host.plugins import import_guard\n"
        "import_guard.install()\n"
        "with import_guard.guarded(): pass\n"
        "import transformers\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "the host process never imports transformers" in done.stderr
