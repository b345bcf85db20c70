from __future__ import annotations

import random
import sys
import zipfile
from importlib.machinery import ModuleSpec

import importlib_metadata

from omni_host.plugins import discover

ENTRY_POINTS = {
    "omni_host.plugins": {"tone": "omni_tone"},
    "omni_host.models": {"ToneModel": "omni_tone", "tone": "omni_tone"},
}


def test_entry_points_are_found_without_importing_their_modules(site):
    site.distribution(
        "omni-tone", entry_points=ENTRY_POINTS, modules={"omni_tone": "raise RuntimeError"}
    )
    discovery = site.discover()
    assert discovery.faults == ()
    assert [(p.group, p.name, p.value) for p in discovery.entry_points] == [
        ("omni_host.models", "ToneModel", "omni_tone"),
        ("omni_host.models", "tone", "omni_tone"),
        ("omni_host.plugins", "tone", "omni_tone"),
    ]
    assert "omni_tone" not in sys.modules


def test_name_and_version_come_from_the_folder_name(site):
    site.distribution("Omni.Tone_x", version="2.0.1rc1", entry_points=ENTRY_POINTS)
    (point,) = site.discover().group("omni_host.plugins")
    assert str(point.distribution) == "omni-tone-x 2.0.1rc1"


def test_an_egg_info_without_a_version_in_its_name_is_asked_for_it(site):
    metadata = site.distribution("omni-tone", entry_points=ENTRY_POINTS)
    (metadata / "METADATA").rename(metadata / "PKG-INFO")
    metadata.rename(metadata.with_name("omni_tone.egg-info"))
    (point,) = site.discover().group("omni_host.plugins")
    assert str(point.distribution) == "omni-tone 1.0"


def test_the_python_tag_of_an_egg_info_is_no_part_of_the_version(site):
    metadata = site.distribution("omni-tone", entry_points=ENTRY_POINTS)
    metadata.rename(metadata.with_name("omni_tone-1.5-py3.11.egg-info"))
    (point,) = site.discover().group("omni_host.plugins")
    assert point.distribution.version == "1.5"


def test_a_version_that_is_written_nowhere_is_unknown(site):
    metadata = site.distribution("omni-tone", entry_points=ENTRY_POINTS)
    (metadata / "METADATA").unlink()
    metadata.rename(metadata.with_name("omni_tone.egg-info"))
    (point,) = site.discover().group("omni_host.plugins")
    assert point.distribution.version == "unknown"


def test_distributions_without_our_groups_say_nothing(site):
    site.distribution("other", entry_points="[console_scripts]\n[broken\nother = other:main\n")
    discovery = site.discover()
    assert discovery.entry_points == ()
    assert discovery.faults == ()


def test_a_folder_that_is_on_the_path_twice_is_read_once(site):
    site.distribution("omni-tone", entry_points=ENTRY_POINTS)
    discovery = discover([str(site.folders[0]), f"{site.folders[0]}/.", "/no/such/folder"])
    assert len(discovery.group("omni_host.plugins")) == 1
    assert discovery.faults == ()


def test_the_current_folder_is_meant_by_an_empty_entry(site, monkeypatch):
    site.distribution("omni-tone", entry_points=ENTRY_POINTS)
    monkeypatch.chdir(site.folders[0])
    assert discover([""]).group("omni_host.plugins")


def test_what_comes_first_on_the_path_shadows_what_comes_later(site):
    new = site.distribution("omni-tone", version="2.0", entry_points=ENTRY_POINTS)
    old = site.distribution("omni_tone", version="1.0", entry_points=ENTRY_POINTS)
    discovery = site.discover()
    assert [p.distribution.version for p in discovery.group("omni_host.plugins")] == ["2.0"]
    (fault,) = discovery.faults
    assert (fault.kind, fault.distribution, fault.version) == (
        "shadowed-distribution",
        "omni-tone",
        "1.0",
    )
    assert str(new) in fault.cause
    assert fault.fix == f"rm -r {old}"


def test_an_egg_info_left_by_a_build_never_shadows_what_is_installed(site):
    site.distribution("omni-tone", version="1.0", entry_points=ENTRY_POINTS, kind="egg-info")
    site.distribution("omni-tone", version="2.0", entry_points=ENTRY_POINTS)
    for _ in range(2):
        discovery = site.discover()
        assert [p.distribution.version for p in discovery.group("omni_host.plugins")] == ["2.0"]
        (fault,) = discovery.faults
        assert (fault.version, fault.kind) == ("1.0", "shadowed-distribution")
        assert "left by a build" in fault.cause
        site.folders.reverse()


def test_of_two_versions_in_one_folder_the_newer_is_taken(site):
    for version in ("1.9", "1.10"):
        site.distribution("omni-tone", version=version, entry_points=ENTRY_POINTS, folder="site")
    discovery = site.discover()
    assert [p.distribution.version for p in discovery.group("omni_host.plugins")] == ["1.10"]
    assert [fault.version for fault in discovery.faults] == ["1.9"]


def test_a_plugin_name_of_two_distributions_is_a_fault_of_both(site):
    site.plugin("tone", distribution="omni-tone")
    site.plugin("tone", distribution="acme-tone", version="3.0")
    faults = site.discover().faults
    assert [(f.plugin, f.distribution, f.kind, f.fix) for f in faults] == [
        ("tone", "acme-tone", "duplicate-name", "pip uninstall acme-tone"),
        ("tone", "omni-tone", "duplicate-name", "pip uninstall omni-tone"),
    ]
    assert "omni-tone 1.0" in faults[0].cause
    assert "acme-tone 3.0" in faults[1].cause


def test_the_order_of_the_path_changes_nothing(site):
    for index in range(6):
        site.plugin(f"p{index}", claims={"models": (f"Model{index}", "shared")})
    site.plugin("p1", distribution="rival")
    expected = site.discover()
    for seed in range(5):
        random.Random(seed).shuffle(site.folders)
        assert site.discover() == expected


def test_a_zip_file_on_the_path_is_read_too(site, tmp_path):
    archive = tmp_path / "omni_tone.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("omni_tone-1.2.dist-info/METADATA", "Name: omni-tone\nVersion: 1.2\n")
        file.writestr(
            "omni_tone-1.2.dist-info/entry_points.txt", "[omni_host.plugins]\ntone = omni_tone\n"
        )
    (point,) = discover([str(archive)]).group("omni_host.plugins")
    assert (point.name, str(point.distribution)) == ("tone", "omni-tone 1.2")


def test_a_file_that_is_no_zip_is_skipped(tmp_path):
    (tmp_path / "stray.txt").write_text("hello")
    assert discover([str(tmp_path / "stray.txt")]).entry_points == ()


class _Listed(importlib_metadata.Distribution):
    def read_text(self, filename: str) -> str | None:
        return {
            "METADATA": "Name: omni-cloud\nVersion: 9.0\n",
            "entry_points.txt": "[omni_host.plugins]\ncloud = omni_cloud\n",
        }.get(filename)

    def locate_file(self, path):
        raise AssertionError(path)


class _Finder:
    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken

    def find_spec(self, *_: object) -> ModuleSpec | None:
        return None

    def find_distributions(self, _context: object):
        if self.broken:
            raise RuntimeError("no network")
        return [_Listed()]


def test_custom_finders_are_asked(site, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [_Finder(), *sys.meta_path])
    points = discover().group("omni_host.plugins")
    assert "omni-cloud 9.0" in [str(p.distribution) for p in points]


def test_a_custom_finder_that_fails_takes_nobody_down(site, monkeypatch):
    site.plugin("tone")
    monkeypatch.setattr(sys, "meta_path", [_Finder(broken=True), *sys.meta_path])
    assert "tone" in [p.name for p in discover().group("omni_host.plugins")]
