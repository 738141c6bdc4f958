"""What a stream's page says of the state of its queries: short, true, shown as it was written."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.markdown import INLINE
from dagster_sparkscale.observe.status import QueryState
from dagster_sparkscale.state.page import of_queries, sentence
from tests.fakes import status
from tests.state.saying import change, kept_by
from tests.watch.reader import written

HEAD = "|query|rows, memory, partitions|\n|-|-|\n"


def shown(*queries, changes=()):
    return of_queries(status(queries=queries or (kept_by(),), reconfigurations=changes))


def test_where_none_keeps_state_there_is_nothing():
    assert of_queries(None) == ""
    assert of_queries(status()) == ""


def test_a_line_a_query():
    both = kept_by("a|b", rows=12_345_678), kept_by("c", bytes=999)
    assert shown(*both) == (
        f"{HEAD}|a\\|b |12,345,678 in 64 MiB, 4 partitions, 16 key groups|\n"
        "|c |1,000,000 in 999 bytes, 4 partitions, 16 key groups|"
    )


def test_what_is_not_known_is_a_dash_and_key_groups_that_are_not_declared_are_none():
    nothing = replace(kept_by("a"), state=QueryState())
    assert shown(nothing) == f"{HEAD}|a |- in -, - partitions|"
    assert (
        shown(kept_by("a", rows=0, bytes=0))
        == f"{HEAD}|a |0 in 0 bytes, 4 partitions, 16 key groups|"
    )


def test_memory_is_in_units_that_people_read():
    sizes = {
        1000: "1000 bytes",
        1024: "1 KiB",
        1536: "1.5 KiB",
        1023 * 1024: "1023 KiB",
        5 * 1024**3: "5 GiB",
        2000 * 1024**4: "2000 TiB",
    }
    for size, text in sizes.items():
        assert f" in {text}, " in shown(kept_by(bytes=size)), size


def test_the_skew_is_of_the_last_change_of_that_query():
    rows = {"partition_rows": (1, 1), "partition_rows_after": (10, 10, 10, 20)}
    done = change(query="a", **rows)
    assert "16 key groups, skew 1.60|" in shown(kept_by("a"), changes=(done,))
    both = replace(done, group_rows=(1, 1, 1, 3))
    assert "16 key groups, skew 1.60 (key groups 2.00)|" in shown(kept_by("a"), changes=(both,))
    for other in (replace(done, query="b"), change(query="a"), change(query="a", step="closing")):
        assert ", 16 key groups|" in shown(kept_by("a"), changes=(other,))


def test_the_last_change_is_a_sentence_below():
    done = change(seconds={"measuring": 2.0, "rewriting": 8.25})
    assert sentence(done) == (
        "last reconfigured at 2027-01-15 08:00 UTC: 'counts', 4 -> 8 partitions, changed after "
        "10.2 s, by a restart"
    )
    assert shown(changes=(done,)).endswith(
        "|\n\nlast reconfigured at 2027-01-15 08:00 UTC: 'counts', 4 \u2192 8 partitions, changed "
        "after 10.2 s, by a restart"
    )


def test_one_that_the_driver_ran_on_for_says_how_long_the_query_stood_still():
    done = change(seconds={"preparing": 2.0, "rewriting": 8.25}, way="in place")
    told = "changed after 10.2 s, stood still for 8.2 s, in place"
    assert sentence(done).endswith(told)
    not_beside = replace(done, beside="its copy catches up too slowly")
    why = " (not beside the stream, as its copy catches up too slowly)"
    assert sentence(not_beside).endswith(told + why)


def test_one_that_was_not_done_says_why():
    undone = change(outcome="undone", reason="a key is missing", before=None)
    assert sentence(undone).endswith("'counts', - -> 8 partitions, undone: a key is missing")


def test_what_of_the_declaration_can_not_be_is_told():
    first = kept_by("a", note="its number is fixed")
    assert shown(first, kept_by("b", note="too")).endswith("|\n\na: its number is fixed")


def test_those_that_there_is_no_room_for_are_counted():
    text = shown(*(kept_by(f"number {number:02}") for number in range(40)))
    told = text.count("|number")
    assert 10 < told < 30
    assert text.endswith(f"|\n\nand {40 - told} more queries")


texts = st.text(max_size=400) | st.just("|*`<x>" * 80)
numbers = st.none() | st.integers(0, 2**63)
counts = st.none() | st.lists(st.integers(0, 2**40), max_size=50).map(tuple)


@given(
    st.lists(
        st.builds(
            lambda name, rows, size, partitions, groups, note: kept_by(
                name, rows=rows, bytes=size, partitions=partitions, key_groups=groups, note=note
            ),
            texts,
            *[numbers] * 4,
            st.none() | texts,
        ),
        min_size=1,
        max_size=40,
    ),
    texts,
    st.none() | texts,
    counts,
    counts,
    numbers,
)
def test_it_is_a_small_table_whatever_it_says(queries, name, reason, of_partitions, of_groups, n):
    done = change(
        query=queries[0].name,
        outcome="failed",
        reason=reason,
        partition_rows=of_partitions,
        group_rows=of_groups,
        before=n,
        seconds={name: 1.0},
    )
    text = shown(*queries, changes=(done,))
    assert 0 < len(text) <= INLINE
    _, kinds = written(text.partition("\n\n")[0])
    assert "table_open" in kinds
    assert not kinds & {"paragraph_open", "html_inline", "em_open", "code_inline", "link_open"}
    assert "last reconfigured at" in text
