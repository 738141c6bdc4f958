"""Overview is small and shows texts as they are, whatever they say."""

from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.status import Executor
from dagster_sparkscale.watch.fleet.behind import behind
from dagster_sparkscale.watch.fleet.rows import STATES, Failing, Row
from dagster_sparkscale.watch.page.overview import (
    Decided,
    executors,
    happened,
    state,
)
from tests.fakes import driver
from tests.watch.reader import written
from tests.watch.test_overview import NOW, STANDS, row

TRICKY = "\\`*_[]<>|~&#;!()-+=.:\"' \n\r1ab"
tricky = (
    st.text(TRICKY)
    | st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30)
    | st.sampled_from(
        [
            "**x** [y](z)",
            "&lt;b&gt;",
            "<script>",
            "| a | b |",
            "![](<data:>)",
            "x" * 2000,
            "|" * 2000,
        ]
    )
)
numbers = st.none() | st.integers(0, 2**63)
measured = st.none() | st.floats(0, 1e99)


def one_line(text):
    return " ".join(text.split())


@given(tricky, tricky, tricky)
def test_whatever_a_text_says_it_is_shown_as_it_is(reason, text, where):
    # It would not be said twice, nor a part of it.
    assume(one_line(text) not in {one_line(part) for part in (reason, *reason.split(";"))})
    shown = row(reason=reason, failing=(Failing("lag", text, "", True),))
    texts, kinds = written(state(shown, 1, driver(where=f"{where}.")))
    assert kinds <= {*("paragraph_open", "paragraph_close", "text", "text_special")} | {
        *("strong_open", "strong_close")
    }
    assert "strong_open" in kinds
    # A long path has its room.
    assert len(texts) == 4 or len(where) > 100
    far = [behind(shown)] if len(texts) == 4 else []
    for found, wanted in zip(
        texts,
        (
            f"not scaled; hold: {reason}",
            f"lag: {text}",
            *far,
            f"seen {clock(NOW)}{STANDS} · driver 1: {where}.",
        ),
        strict=True,
    ):
        whole = not found.endswith("...")
        expected, seen = one_line(wanted), one_line(found)
        assert seen == expected if whole else expected.startswith(seen[:-3].rstrip())


rows = st.builds(
    Row,
    stream=st.just("clicks"),
    asset=st.just(("clicks",)),
    state=st.sampled_from(STATES),
    seen_at=st.floats(0, 1e10),
    since=st.none() | st.floats(0, 1e10),
    ratio=measured,
    lag=measured,
    registered=numbers,
    requested=numbers,
    maximum=numbers,
    decision=tricky,
    reason=tricky,
    failing=st.lists(
        st.builds(Failing, tricky, tricky, st.just(""), st.booleans()), max_size=3
    ).map(tuple),
)
drivers = st.none() | st.builds(
    driver,
    st.sampled_from(DriverState),
    st.integers(0, 2**63),
    ui_url=st.none() | st.just("http://h") | tricky,
    where=tricky,
)


@given(rows, drivers, st.integers(0, 10**6))
def test_the_state_is_small_whatever_it_says(made, seen, minimum):
    text = state(made, minimum, seen)
    assert len(text) < 1000
    assert f"seen {clock(made.seen_at)}" in text


@given(
    st.lists(
        st.builds(Executor, tricky, tricky, *[st.integers(0, 2**63)] * 3), min_size=1, max_size=60
    )
)
def test_the_executors_are_a_small_table_whatever_they_are_called(told):
    text = executors(told)
    assert 0 < len(text) < 1000
    table, _, more = text.partition("\n\n")
    texts, kinds = written(table)
    assert "table_open" in kinds
    assert not kinds & {"paragraph_open", "link_open", "html_inline", "em_open", "code_inline"}
    lines = len(texts) // 3 - 1
    assert len(texts) == 3 * (lines + 1)
    if texts[0] == "executor":
        assert (lines, more) == (len(told), "")
    elif not more:
        assert sum(int(count) for count in texts[3::3]) == len(told)


@given(st.lists(st.builds(Decided, st.floats(0, 1e10), tricky, tricky, tricky), max_size=12))
def test_the_decisions_are_a_small_table_whatever_they_say(many):
    text = happened("clicks", many, [], NOW)
    assert len(text) < 1000
    if not many:
        return
    newest = max(many, key=lambda each: each.at)
    if len(newest.run_key) < 300:
        assert text
    if text:
        texts, kinds = written(text.partition("\n\n")[0])
        assert "table_open" in kinds
        assert not kinds & {"paragraph_open", "html_inline", "em_open", "code_inline", "image"}
        assert texts[0] == "runs, UTC"
        assert texts[2] == clock(newest.at, NOW)
