"""A log is followed by reading its end again and again: each line once."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.cli.logs import fresh


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.integers(1, 10), st.integers(0, 8))
def test_each_line_once_as_long_as_the_looks_overlap(
    lines: list[str], window: int, first: int
) -> None:
    first = min(first, len(lines))
    if len(lines) - first >= window:
        return  # the first look's last line is no longer to be seen: see the next test
    before, now = lines[:first][-window:], lines[-window:]
    assert fresh(before, now) == lines[first:]


def test_all_where_so_much_came_that_they_do_not_overlap() -> None:
    assert fresh(["a", "b"], ["e", "f"]) == ["e", "f"]


def test_nothing_where_nothing_came() -> None:
    assert fresh(["a", "b"], ["a", "b"]) == []
    assert fresh([], []) == []


def test_a_line_that_was_read_while_it_was_written_comes_again_whole() -> None:
    assert fresh(["a", "hal"], ["a", "half", "b"]) == ["half", "b"]
    assert fresh(["x", "a", "hal"], ["a", "half", "b"]) == ["half", "b"]


def test_lines_that_repeat() -> None:
    assert fresh(["a", "a"], ["a", "a", "a"]) == ["a"]


def test_a_line_alike_among_others_is_no_overlap() -> None:
    assert fresh(["p", "q", "a"], ["c", "d", "ab", "e"]) == ["c", "d", "ab", "e"]


def test_a_log_that_has_begun_anew_is_shown_whole() -> None:
    assert fresh(["a", "b"], ["a"]) == ["a"]
