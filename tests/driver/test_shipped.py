"""What a driver on a worker is sent, and how it is told of from there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver import shipped

words = st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers(), max_size=4)


@given(words, words, st.text(max_size=50))
def test_the_last_word_counts_whatever_is_written_between(
    first: dict[str, Any], last: dict[str, Any], between: str
) -> None:
    lines = [f"\n{shipped.line(first)}\n", between.replace("sparkscale", ""), "\n"]
    written = "".join([*lines, f"\n{shipped.line(last)}\n", "and more\n"])
    assert shipped.last_report(written) == last


def test_a_word_that_was_cut_is_none() -> None:
    whole = shipped.line({"agent.json": {"url": "https://h:1"}})
    assert shipped.last_report(whole[10:]) is None
    assert shipped.last_report(f"{whole}\n{whole[:-3]}") == {"agent.json": {"url": "https://h:1"}}
    assert shipped.last_report("sparkscale: agent of clicks, epoch 1, at https://h:1\n") is None


@given(st.dictionaries(st.text(max_size=8), words, max_size=3))
def test_a_start_is_unpacked_as_it_was_packed(start: dict[str, Any]) -> None:
    assert shipped.unpack(shipped.pack(start)) == start
