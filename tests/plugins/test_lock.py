from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from omni_host.errors import LockError
from omni_host.plugins import Lock, LockedPlugin, Plugins


def refused(lock: Lock) -> LockError:
    with pytest.raises(LockError) as caught:
        Plugins.load_locked(lock)
    return caught.value


def test_a_lock_names_interpreter_distributions_and_versions(site):
    site.plugin("tone", version="1.2")
    site.plugin("bad", "raise ValueError")
    site.plugin("kept")
    assert site.load(block=("kept",)).lock() == Lock(
        python=sys.executable,
        plugins=(
            LockedPlugin(name="tone", module="omni_tone", distribution="omni-tone", version="1.2"),
        ),
    )


def test_a_lock_crosses_the_wire(site):
    site.plugin("tone")
    lock = site.load().lock()
    assert Lock.from_data(msgpack.unpackb(msgpack.packb(lock.to_data()))) == lock


@pytest.mark.parametrize("data", [{}, {"python": "x", "plugins": [{"name": "x"}]}, {"python": 1}])
def test_data_that_is_no_lock_is_refused(data):
    with pytest.raises(LockError, match="no plugin lock"):
        Lock.from_data(data)


def test_exactly_the_locked_plugins_are_loaded(site):
    site.family("tone", "ToneModel")
    lock = site.load().lock()
    site.plugin("newcomer", "raise SystemExit")
    plugins = Plugins.load_locked(lock)
    assert plugins.lock() == lock
    assert "omni_newcomer" not in sys.modules


def test_locked_plugins_may_import_torch(site, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    site.plugin("tone")
    lock = site.load().lock()
    site.distribution("torch", modules={"torch": ""})
    (site.folders[0] / "omni_tone.py").write_text(
        "import torch\nfrom omni_host.api import PluginInfo\n"
        "PLUGIN = PluginInfo(name='tone', summary='')\n"
    )
    del sys.modules["omni_tone"]
    Plugins.load_locked(lock)
    assert "torch" in sys.modules


def test_a_plugin_that_is_gone_is_named(site):
    site.plugin("tone")
    lock = site.load().lock()
    sys.path.remove(str(site.folders[0]))
    assert "'tone' (omni-tone 1.0, omni_tone) is locked, but not installed" in refused(lock).message


def test_another_version_is_refused(site):
    site.plugin("tone", version="2.0")
    lock = site.load().lock()
    (plugin,) = lock.plugins
    other = replace(lock, plugins=(replace(plugin, version="1.0"),))
    error = refused(other)
    assert "omni-tone 1.0, omni_tone) is locked, but" in error.message
    assert "omni-tone 2.0" in error.message
    assert error.field == "tone"


def test_another_interpreter_is_refused(site):
    error = refused(Lock(python="/elsewhere/bin/python", plugins=()))
    assert error.message == (
        f"The lock is of /elsewhere/bin/python, this process runs {sys.executable}."
    )
    assert error.hint == "Start omni-host with the interpreter that its stages run in."


def test_another_name_of_the_same_interpreter_is_fine():
    folder = Path(sys.executable).parent
    name = next(p for p in folder.glob("python*") if p.resolve() == Path(sys.executable).resolve())
    assert Plugins.load_locked(Lock(python=str(name), plugins=())).lock().plugins == ()


@pytest.mark.parametrize("detour", ["host", "stage"])
def test_a_path_that_is_not_straight_is_the_same_interpreter(detour, monkeypatch):
    straight = Path(sys.executable)
    crooked = f"{straight.parent}/../{straight.parent.name}/{straight.name}"
    locked = crooked if detour == "host" else str(straight)
    if detour == "stage":
        monkeypatch.setattr(sys, "executable", crooked)
    assert Plugins.load_locked(Lock(python=locked, plugins=())).lock().python == str(straight)


def test_a_locked_plugin_that_does_not_load_stops_the_process(site):
    site.plugin("tone")
    lock = site.load().lock()
    (site.folders[0] / "omni_tone.py").write_text("import no_such_package\n")
    del sys.modules["omni_tone"]
    error = refused(lock)
    assert "does not load: ModuleNotFoundError: No module named 'no_such_package'" in error.message
    assert error.hint == "pip install --force-reinstall omni-tone"
