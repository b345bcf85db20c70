from __future__ import annotations

import pytest

from omni_host.plugins.distributions import Distribution
from omni_host.plugins.entry_points import parse

TONE = Distribution(name="omni-tone", version="1.0", metadata="omni_tone-1.0.dist-info")


def test_comments_blank_lines_and_spaces_are_skipped():
    points, faults = parse("\n# a\n; b\n[omni_host.plugins]\n  tone  =  omni.tone  \n", TONE)
    assert [(p.name, p.value) for p in points] == [("tone", "omni.tone")]
    assert faults == []


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("tone = omni_tone", "line 1: 'tone = omni_tone' stands under no group"),
        ("[omni_host.plugins\ntone = t", "line 1: '[omni_host.plugins' has no closing bracket"),
        ("[omni_host.plugins]\ntone", "line 2: 'tone' is not of the form 'name = module'"),
        ("[omni_host.plugins]\n= t", "line 2: '= t' is not of the form 'name = module'"),
        ("[omni_host.plugins]\na = t\na = u", "line 3: 'a' stands twice under [omni_host.plugins]"),
        ("[omni_host.plugins]\na = my-module", "line 2: 'my-module' is not a dotted name"),
        ("[omni_host.models]\na = t:f", "line 2: 'a' must name the plugin's module, not an object"),
        ("[omni_host.commands]\na = t", "line 2: the command 'a' must be 'module:command'"),
    ],
)
def test_a_malformed_line_is_a_fault_that_names_it(text, cause):
    _, faults = parse(text, TONE)
    fault = faults[0]
    assert fault.kind == "malformed-entry-points"
    assert fault.cause == f"entry_points.txt, {cause}"
    assert (fault.distribution, fault.version) == ("omni-tone", "1.0")
    assert fault.fix == "pip install --force-reinstall omni-tone"


def test_good_lines_beside_a_malformed_one_are_kept():
    points, faults = parse("[omni_host.plugins]\nbad\ntone = omni_tone\n", TONE)
    assert [p.name for p in points] == ["tone"]
    assert len(faults) == 1


def test_a_group_that_does_not_exist_is_a_fault_with_a_suggestion():
    _, (fault,) = parse("[omni_host.modles]\nX = omni_tone\n", TONE)
    assert fault.kind == "unknown-group"
    assert "Did you mean 'omni_host.models'?" in fault.cause


def test_lines_of_other_groups_are_not_looked_at():
    points, faults = parse("[console_scripts]\nodd line\n[omni_host.engines]\nx = t\n", TONE)
    assert [p.group for p in points] == ["omni_host.engines"]
    assert faults == []


def test_bytes_that_are_no_text_are_a_fault(site):
    metadata = site.plugin("tone")
    file = metadata / "entry_points.txt"
    file.write_bytes(file.read_bytes() + b"# \xff\xfe\n")
    discovery = site.discover()
    assert [f.cause for f in discovery.faults] == ["entry_points.txt is not UTF-8"]
    assert [p.name for p in discovery.group("omni_host.plugins")] == ["tone"]
