"""Each check of the contract fails for a plugin that breaks its rule, and for no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.testing.contract_runs import Contract, run

pytestmark = pytest.mark.timeout(600)

SHORT_S = 5.0
"""Of contracts that are to fail by waiting."""

LEFT = tuple(
    f"a_request_that_is_left_leaves_every_stage[{moment}]"
    for moment in ("before_a_chunk", "after_a_chunk", "midway")
)
AUDIO = "a_request_gives_audio"
REFUSED = "a_bad_request_is_refused_by_the_field_at_fault"
NOTHING_BEHIND = "requests_leave_nothing_behind"
SAME_TEST = {"every_placement_sounds_the_same[separate]"}
"""Another parameter of a check that a bad plugin fails."""
KILLED = "a_killed_process_comes_back"


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A contract and the checks that it has to fail; `stops` where nothing can be served."""

    contract: Contract
    fails: frozenset[str]
    stops: bool = False


def plugin(name: str, *fails: str, stops: bool = False) -> Bad:
    contract = Contract(name=name.title().replace("_", ""), plugin=name)
    return Bad(contract=contract, fails=frozenset(fails), stops=stops)


def touch(what: str) -> Bad:
    name = f"Touching{what.title().replace(' ', '')}"
    contract = Contract(name=name, plugin="touching", options={"touch": what})
    return Bad(contract=contract, fails=frozenset({"building_its_graph_touches_nothing"}))


def stage(
    name: str,
    *fails: str,
    at: str = "tones",
    patience_s: float = 60.0,
    stops: bool = False,
    **options: str,
) -> Bad:
    given = {at: f"faulty_stages:{name}", **options}
    contract = Contract(name=name, options=given, patience_s=patience_s)
    return Bad(contract=contract, fails=frozenset(fails), stops=stops)


HOST = {
    "faults": plugin("orphaned", "the_host_finds_no_fault_with_it"),
    "no summary": plugin("nameless", "it_says_what_it_is"),
    "two lines": plugin("talkative", "it_says_what_it_is"),
    "numpy": plugin("heavy_import", "importing_it_is_light"),
    "many modules": plugin("many_imports", "importing_it_is_light"),
    "an engine in a hook": plugin("heavy_hook", "its_hooks_import_nothing_heavy"),
    "no static claim": plugin("unclaimed", "its_claims_lead_to_it"),
    "an alias without a model": plugin("astray", "its_claims_lead_to_it"),
    "a hook's answer": plugin("careless", "its_hooks_answer_as_they_should"),
    "an edge that dangles": plugin("dangling", "its_graph_is_valid", stops=True),
    "a field of the API": plugin("redefining", "its_graph_is_valid", stops=True),
    "another graph each time": plugin("moody", "its_graph_depends_on_the_arguments_alone"),
    "order of a set": plugin("unordered", "its_graph_depends_on_the_arguments_alone"),
    "a tuple as argument": plugin("unplain", "its_graph_is_plain_data"),
    "a field's type": plugin(
        "mistyped", "its_graph_is_valid", "its_graph_is_plain_data", stops=True
    ),
    "weights": touch("weights"),
    "large file": touch("large file"),
    "writing": touch("writing"),
    "socket": touch("socket"),
    "process": touch("process"),
    "folder": touch("folder"),
    "environment": touch("environment"),
    "thread": touch("thread"),
}
STAGES = {
    "loud": stage("Loud", AUDIO),
    "float64": stage("Wide", AUDIO, NOTHING_BEHIND, stops=True),
    "not a number": stage("Undefined", AUDIO, NOTHING_BEHIND, stops=True),
    "silent": stage("Silent", AUDIO),
    "another rate": stage("Drawn", AUDIO),
    "chunks left out": stage("Hasty", "streamed_audio_is_the_whole"),
    "shared by requests": stage("Shared", "requests_at_once_sound_as_alone"),
    "shared by stages": stage(
        "Mute",
        "every_placement_sounds_the_same[fused]",
        at="words",
        tones="faulty_stages:Turned",
    ),
    "nothing checked": stage("Trusting", REFUSED, at="words"),
    "no field named": stage("Vague", REFUSED, at="words"),
    "any voice taken": stage("Obliging", REFUSED, at="words"),
    "ends its process": stage("Fragile", REFUSED, at="words"),
    "deaf to cancelling": stage("Deaf", *LEFT, NOTHING_BEHIND, patience_s=SHORT_S),
    "marked by cancelling": stage("Offended", *LEFT, REFUSED),
    "descriptors": stage("Opener", NOTHING_BEHIND, patience_s=SHORT_S),
    "threads": stage("Threads", NOTHING_BEHIND, patience_s=SHORT_S),
    "children": stage("Children", NOTHING_BEHIND, patience_s=SHORT_S),
    "segments": stage("Segments", NOTHING_BEHIND, patience_s=SHORT_S),
    "an heir": stage("Parent", "stopping_leaves_nothing_behind", patience_s=SHORT_S),
    "lost memory": stage("Mapper", "stopping_leaves_nothing_behind", patience_s=SHORT_S),
    "a lock": stage("Locked", KILLED, patience_s=SHORT_S),
}
BAD = {**HOST, **STAGES}


@pytest.fixture(scope="module", autouse=True)
def no_memory_lost():
    yield
    for path in Path("/dev/shm").glob("toy-*"):
        path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Of the check meant for each bad plugin, all in one run."""
    folder = tmp_path_factory.mktemp("contracts")
    return run(folder, {bad.contract: bad.fails for bad in BAD.values()})


def test_a_good_plugin_passes_every_check(tmp_path):
    outcomes = run(tmp_path, {Contract(name="Toy"): ()})["Toy"]
    assert set(outcomes.values()) == {"passed"}
    assert set().union(*(bad.fails for bad in BAD.values())) >= outcomes.keys() - SAME_TEST


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_plugin_fails_the_check_meant_for_it(bad, outcomes):
    assert outcomes[bad.contract.name] == dict.fromkeys(bad.fails, "failure")


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_plugin_fails_no_other_check(bad, tmp_path):
    outcomes = run(tmp_path, {bad.contract: ()})[bad.contract.name]
    failed = {check for check, outcome in outcomes.items() if outcome == "failure"}
    stopped = {check for check, outcome in outcomes.items() if outcome == "error"}
    assert failed == bad.fails
    assert bool(stopped) == bad.stops
