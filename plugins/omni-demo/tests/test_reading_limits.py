"""Text beyond what the reader can take."""

import pytest
from omni_demo.reading_limits import MAX_RUN, MAX_TURN, spell_out, split_runs, turns

PROSE = "Dr. Smith paid $9.99 at 9:30am, for https://example.com/a/b?c=d (it's 5km away)."


def test_prose_is_left_alone():
    assert turns(PROSE) == [PROSE]
    assert split_runs(PROSE) == PROSE
    assert spell_out(PROSE) == PROSE


@pytest.mark.parametrize("pattern", ["a/", "Aa", "1,", "=", "a-b_c.", "é\u0301", "4x"])
def test_a_run_is_split_without_losing_anything(pattern):
    run = pattern * 200
    split = split_runs(run)
    assert split.replace(" ", "") == run
    assert max(map(len, split.split())) <= MAX_RUN * len(pattern)


def test_an_endless_sentence_is_read_in_parts_of_whole_words():
    words = [f"word{number}" for number in range(3 * MAX_TURN)]
    parts = turns(" ".join(words))
    assert len(parts) > 3
    assert " ".join(parts).split() == words


def test_an_endless_word_is_read_in_parts():
    parts = turns("-a" * 10 * MAX_TURN)
    assert "".join(parts) == "-a" * 10 * MAX_TURN
    assert max(map(len, parts)) <= 2 * MAX_TURN


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("10⁻⁶ and ⁴He", "10\N{MINUS SIGN}6 and 4He"),
        ("1" * 36, "1" * 36),
        ("1" * 30 + "㉔" + "1" * 30, " ".join("1" * 30 + "24" + "1" * 30)),
        ("1" * 37, " ".join("1" * 37)),
        (",".join(["123"] * 20), ", ".join(["123"] * 20)),
        ("7" * 30 + "'" + "7" * 30, "7" * 30 + ", " + "7" * 30),
    ],
)
def test_numbers_without_a_name_are_spelled_out(written, spelled):
    assert spell_out(written) == spelled
