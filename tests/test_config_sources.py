"""Where settings come from, and which source wins."""

import pytest

from omni_host.config.keys import dotted, parse_key
from omni_host.config.plugin_lists import plugin_lists
from omni_host.config.sources import Entry, assignment, gather
from omni_host.errors import ConfigError

PORT = ("server", "port")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, text):
    path.write_text(text)
    return str(path)


def test_file_environment_set_and_flag_win_in_that_order(tmp_path):
    file = write(tmp_path / "a.toml", "[server]\nport = 1\n")
    environment = {"OMNI_SERVER__PORT": "2"}
    flag = Entry(key=PORT, value=4, source="--port")

    by_file = gather(config=file, environment={})[PORT]
    by_variable = gather(config=file, environment=environment)[PORT]
    by_set = gather(config=file, environment=environment, assignments=["server.port=3"])[PORT]
    by_flag = gather(
        config=file, environment=environment, assignments=["server.port=3"], flags=[flag]
    )[PORT]

    assert (by_file.value, by_file.source) == (1, file)
    assert (by_variable.value, by_variable.source) == (2, "OMNI_SERVER__PORT")
    assert (by_set.value, by_set.source) == (3, "--set server.port")
    assert (by_flag.value, by_flag.source) == (4, "--port")


def test_the_option_goes_before_the_variable_and_that_before_the_file_that_lies_there(tmp_path):
    write(tmp_path / "omni.toml", "[server]\nport = 1\n")
    named = write(tmp_path / "named.toml", "[server]\nport = 2\n")
    asked = write(tmp_path / "asked.toml", "[server]\nport = 3\n")

    assert gather(environment={})[PORT].value == 1
    assert gather(environment={"OMNI_CONFIG": named})[PORT].value == 2
    assert gather(config=asked, environment={"OMNI_CONFIG": named})[PORT].value == 3


def test_nothing_is_needed():
    assert gather(environment={}) == {}


@pytest.mark.parametrize(
    "arguments", [{"config": "no.toml"}, {"environment": {"OMNI_CONFIG": "no.toml"}}]
)
def test_a_file_that_is_named_must_be_there(arguments):
    with pytest.raises(ConfigError, match=r"no configuration file no\.toml"):
        gather(**{"environment": {}, **arguments})


@pytest.mark.parametrize("content", [b"[server\n", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_named_with_the_cause(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml is not a readable TOML file: .+"):
        gather(config=str(path), environment={})


def test_tables_merge_key_by_key(tmp_path):
    file = write(tmp_path / "a.toml", "[stages.a.server_args]\nx = 1\ny = {z = 2, w = 3}\n")
    entries = gather(
        config=file, environment={}, assignments=["stages.a.server_args={y={z=4}, v=5}"]
    )
    table = ("stages", "a", "server_args")
    assert {key[3:]: entry.value for key, entry in entries.items() if key[:3] == table} == {
        ("x",): 1,
        ("y", "z"): 4,
        ("y", "w"): 3,
        ("v",): 5,
    }


@pytest.mark.parametrize(
    ("first", "second"), [("a.b=1", "a.b.c=2"), ("a.b.c=2", "a.b=1"), ("a.b={c=1}", "a.b=3")]
)
def test_a_value_replaces_a_table_and_a_table_a_value(first, second):
    entries = gather(environment={}, assignments=[first, second])
    assert list(entries) == [assignment(second).key]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8000", 8000),
        ("0.5", 0.5),
        ("true", True),
        ('"8000"', "8000"),
        ("[1, 2]", [1, 2]),
        ("{x = 1}", {"x": 1}),
        ("127.0.0.1", "127.0.0.1"),
        ("cuda:0", "cuda:0"),
        ("", ""),
        ("a=b", "a=b"),
        ("2026-12-01", "2026-12-01"),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_value_is_a_toml_literal_or_else_a_string(text, value):
    assert assignment(f"model.option={text}").value == value


def test_variables_name_settings_in_upper_case_but_keep_the_names_of_variables():
    entries = gather(
        environment={
            "OMNI_PLACEMENT": "fused",
            "OMNI_STAGES__VOCODER__ENV__OMP_NUM_THREADS": "2",
            "OMNI_USER": "of other software",
            "OMNI_KIT_ACCEPT_EULA": "yes",
            "HOME": "/root",
        }
    )
    assert {key: entry.value for key, entry in entries.items()} == {
        ("placement",): "fused",
        ("stages", "vocoder", "env", "OMP_NUM_THREADS"): 2,
    }


def test_a_variable_with_an_empty_part_is_refused():
    with pytest.raises(ConfigError, match="OMNI_SERVER__ has an empty part"):
        gather(environment={"OMNI_SERVER__": "1"})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("server.port", ("server", "port")),
        ('edges."a->b".transport', ("edges", "a->b", "transport")),
        ("edges.a->b.transport", ("edges", "a->b", "transport")),
        ("model.'x.y'", ("model", "x.y")),
    ],
)
def test_a_dotted_name_is_read_and_written(text, key):
    assert parse_key(text) == key
    assert parse_key(dotted(key)) == key


@pytest.mark.parametrize("text", ["", "a..b", "a.", ".a", 'a."b'])
def test_what_is_no_dotted_name_is_refused(text):
    with pytest.raises(ConfigError, match="not a setting's name"):
        parse_key(text)


def test_an_assignment_needs_a_value():
    with pytest.raises(ConfigError, match=r"--set server\.port has no value"):
        assignment("server.port")


def test_plugin_lists_are_read_before_validation():
    entries = gather(
        environment={"OMNI_PLUGINS__ALLOW": "a, b"},
        assignments=['plugins.block=["c"]', "no.such=1"],
    )
    assert plugin_lists(entries) == (("a", "b"), ("c",))


def test_plugin_lists_must_be_names():
    with pytest.raises(ConfigError, match=r"plugins\.allow = 3 \(from --set plugins\.allow\)"):
        plugin_lists(gather(environment={}, assignments=["plugins.allow=3"]))


@pytest.mark.parametrize("name", ["PLACMENT", "PLACEMENTS", "PLACEMEMT", "PLACEMNET"])
def test_a_variable_that_is_nearly_a_setting_is_warned_of(name, caplog):
    assert gather(environment={f"OMNI_{name}": "fused"}) == {}
    assert f"OMNI_{name} is no setting. Did you mean 'OMNI_PLACEMENT'?" in caplog.text


@pytest.mark.parametrize("name", ["PLACE", "USER", "PLACEMENT_ID", "CONFIG"])
def test_other_variables_belong_to_other_software(name, caplog, tmp_path):
    gather(environment={f"OMNI_{name}": write(tmp_path / "a.toml", "")})
    assert caplog.text == ""
