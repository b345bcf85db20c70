"""Settings are checked, and each keeps its source."""

import pytest

from omni_host.config.settings import validate
from omni_host.config.sources import gather
from omni_host.errors import ConfigError
from omni_host.offers import Sourced


def settings(*assignments, environment=None):
    return validate(gather(environment=environment or {}, assignments=assignments))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_without_any_source_there_are_defaults():
    given = settings()
    assert given.values.server.host == "127.0.0.1"
    assert given.values.model.reference == "default"
    assert given.source("server", "host") == "default"
    assert given.given() == {}


def test_every_given_setting_has_its_source():
    given = settings("server.port=9000", environment={"OMNI_LOG__LEVEL": "debug"})
    assert given.given() == {
        "log.level": Sourced(value="debug", source="OMNI_LOG__LEVEL"),
        "server.port": Sourced(value=9000, source="--set server.port"),
    }


def test_server_arguments_are_free_and_sourced():
    given = settings(
        "stages.a.server_args={x=1, y={z=2}}",
        "stages.a.server_args.y.w=[1]",
    )
    assert given.sourced("stages", "a", "server_args") == {
        "x": Sourced(value=1, source="--set stages.a.server_args"),
        "y": Sourced(
            value={"z": 2, "w": [1]},
            source="--set stages.a.server_args, --set stages.a.server_args.y.w",
        ),
    }


def test_options_of_the_model_are_free_beside_the_hosts_own():
    table = settings("model.owner=me", "model.depth=3", "model.deep={x=[1]}").values.model
    assert table.owner == "me"
    assert table.options == {"depth": 3, "deep": {"x": [1]}}


@pytest.mark.parametrize(
    ("text", "names", "hint"),
    [
        ("sever.port=1", "There is no setting sever .*Did you mean 'server'", "has placement"),
        ("server.prt=1", r"There is no setting server\.prt .*Did you mean 'port'", "host, port"),
        ("stages.a.devise=cpu", r"stages\.a\.devise .*Did you mean 'device'", "process, device"),
        ("stages.a.batching.max=1", r"stages\.a\.batching\.max ", "max_size"),
        ("edges.a->b.transprt=shm", r'edges\."a->b"\.transprt .*\'transport\'', "credits"),
        ("surprise=1", "There is no setting surprise", "has placement"),
    ],
)
def test_an_unknown_setting_is_named_with_its_source_and_what_was_meant(text, names, hint):
    with pytest.raises(ConfigError, match=names) as caught:
        settings(text)
    assert f"(from --set {caught.value.field}" in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("server.port=abc", r"server\.port = 'abc' .*expected a valid integer"),
        ("server.port=70000", r"server\.port = 70000 .*less than or equal to 65535"),
        ("server.port=true", r"server\.port = True .*expected a valid integer"),
        ("server=3", r"server = 3 .*expected a table"),
        ("stages.a=1", r"stages\.a = 1 .*expected a table"),
        ("placement=fuse", r"placement = 'fuse' .*'graph', 'fused' or 'separate'"),
        ("limits.deadline_seconds=0", r"limits\.deadline_seconds = 0 .*greater than 0"),
        ("limits.deadline_seconds=inf", r"limits\.deadline_seconds = inf .*finite"),
        ("plugins.allow=3", r"plugins\.allow = 3 .*list of names"),
        ("stages.a.process=", r"stages\.a\.process = '' .*at least 1 character"),
    ],
)
def test_a_bad_value_is_named_with_key_source_and_what_was_expected(text, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        settings(text)
    assert f"(from --set {caught.value.field})" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_date_is_no_option(tmp_path):
    (tmp_path / "omni.toml").write_text("[model]\nday = 2026-12-01\n")
    with pytest.raises(ConfigError, match=r"model\.day = .*\(from omni\.toml\).*expected a string"):
        settings()


def test_text_that_looks_like_a_number_is_text_where_text_is_wanted():
    given = settings("model.revision=1.0", environment={"OMNI_STAGES__A__ENV__X": "01"})
    assert given.values.model.revision == "1.0"
    assert given.values.stages["a"].env == {"X": "01"}
    assert given.given()["model.revision"].value == "1.0"


def test_a_number_in_a_file_is_no_text(tmp_path):
    (tmp_path / "omni.toml").write_text("[model]\nrevision = 1.0\n")
    with pytest.raises(ConfigError, match=r"model\.revision = 1\.0 .*expected a valid string"):
        settings()


def test_names_may_be_listed_with_commas():
    assert settings("plugins.routes=a, b").values.plugins.routes == ("a", "b")
