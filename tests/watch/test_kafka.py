"""What a stream's page says of Kafka: the partitions furthest behind, and what is not known."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.kafka.page import of_queries
from dagster_sparkscale.markdown import INLINE
from dagster_sparkscale.observe.status import Query
from tests.fakes import status
from tests.watch.reader import written

HEAD = "|query|partition|records behind|\n|-|-|-|\n"
WHY = "partition t-1 is gone from Kafka"


def query(name: str = "q", **told: Any) -> Query:
    return Query(name, active=told.pop("active", True), **told)


def shown(*queries: Query) -> str:
    return of_queries(status(queries=queries))


def test_where_no_query_reads_from_kafka_there_is_nothing():
    assert of_queries(None) == shown() == shown(query()) == ""


def test_a_line_a_partition_that_is_behind_in_the_order_in_which_they_are_told():
    both = query("a|b", partitions_behind={"t-1": 12_345, "t-0": 7, "t-2": 0}), query("c")
    assert shown(*both) == f"{HEAD}|a\\|b |t-1 |12,345|\n|a\\|b |t-0 |7|"


def test_of_a_query_that_has_caught_up_one_line_says_so():
    assert shown(query(partitions_behind={"t-0": 0, "t-1": 0})) == f"{HEAD}|q |all|0|"


def test_what_is_not_known_is_said_and_never_a_zero():
    assert shown(query(lag_unknown=WHY)) == f"q: lag unknown: {WHY}"
    known = query("r", partitions_behind={"t-0": 3})
    both = shown(query(lag_unknown=WHY), known)
    assert both == f"{HEAD}|r |t-0 |3|\n\nq: lag unknown: {WHY}"
    # In records it may be known all the same.
    assert shown(query(partitions_behind={"t-0": 3}, lag_unknown="no rate")) == (
        f"{HEAD}|q |t-0 |3|\n\nq: lag unknown: no rate"
    )


def test_a_query_that_has_ended_is_not_shown():
    assert shown(query(active=False, partitions_behind={"t-0": 3}, lag_unknown=WHY)) == ""


def test_what_there_is_no_room_for_is_counted():
    many = {f"{'topic' * 10}-{number}": 100 - number for number in range(20)}
    text = shown(query(partitions_behind=many))
    assert len(text) <= INLINE
    assert "more partitions" in text and "topic-0 |100|" in text.replace("![]()", "")


@given(
    st.text(max_size=200),
    st.dictionaries(st.text(max_size=300), st.integers(0, 2**63), max_size=20),
    st.none() | st.text(max_size=2000),
)
def test_whatever_names_there_are_it_is_short_and_shown_as_it_was_written(name, told, why):
    text = shown(query(name, partitions_behind=told or None, lag_unknown=why))
    assert len(text) <= INLINE
    texts, kinds = written(text)
    assert not kinds & {"em", "strong", "s", "link", "code_inline", "html_inline", "heading_open"}
    if told:
        assert texts[:3] == ["query", "partition", "records behind"]
        assert "table_open" in kinds
