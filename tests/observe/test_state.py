"""What is known of the state that queries keep."""

from dataclasses import replace

import pytest

from dagster_sparkscale.observe.state import (
    in_progress,
    last_change,
    partitions,
    rows,
    rows_of_partitions,
    stateful,
    untold,
)
from dagster_sparkscale.observe.status import Query
from tests.fakes import status
from tests.state.saying import change, kept_by

PLAIN = Query("plain", active=True)
COLD = Query("cold", active=True, cold=True)
ENDED = replace(kept_by("ended", rows=9, partitions=99), active=False)


def said(*queries: Query):
    return status(queries=queries)


def test_only_active_queries_that_keep_state_count():
    one, other = kept_by("a"), kept_by("b")
    found = stateful(said(one, PLAIN, COLD, ENDED, other))
    assert found == ((one, one.state), (other, other.state))


def test_a_query_without_state_has_told_of_it_once_it_is_not_cold():
    assert untold(said(kept_by(), PLAIN, COLD, replace(COLD, active=False))) == (COLD,)
    assert untold(said(replace(kept_by(), cold=True))) == ()
    assert untold(said(replace(COLD, stateless=True))) == ()


def test_rows_are_of_all_and_partitions_of_the_one_with_most():
    seen = said(
        kept_by("a", rows=5, partitions=4), kept_by("b", rows=0, partitions=8), PLAIN, ENDED
    )
    assert (rows(seen), partitions(seen)) == (5, 8)


@pytest.mark.parametrize(
    "queries",
    [
        (),
        (PLAIN,),
        (ENDED,),
        (kept_by("a"), COLD),
        (kept_by("a"), kept_by("b", rows=None, partitions=None)),
    ],
)
def test_a_part_is_not_the_whole(queries):
    assert (rows(said(*queries)), partitions(said(*queries))) == (None, None)


def test_the_last_change_is_the_last_that_is_over():
    first, other = change(query="a"), change(query="b", outcome="undone")
    doing = change(query="a", step="rewriting")
    seen = status(reconfigurations=(first, other, doing))
    assert last_change(seen) == other
    assert last_change(seen, "a") == first
    assert last_change(seen, "c") is None
    assert last_change(status(reconfigurations=(doing,))) is None


def test_where_this_driver_changed_nothing_the_last_change_is_one_before_it():
    newer = change(query="b")
    old = replace(change(query="a"), began_at=newer.began_at - 60)
    seen = said(kept_by("a", last=old), kept_by("b", last=newer), PLAIN)
    assert (last_change(seen), last_change(seen, "a")) == (newer, old)
    own = change(query="a", outcome="undone")
    assert last_change(replace(seen, reconfigurations=(own,)), "a") == own


def test_partitions_have_the_rows_that_were_counted_last():
    counted = {"partition_rows": (1, 3), "partition_rows_after": (2, 2)}
    assert rows_of_partitions(change(**counted)) == (2, 2)
    assert rows_of_partitions(change(outcome="undone", **counted)) == (1, 3)
    assert rows_of_partitions(change()) is None


def test_what_is_being_done_is_said():
    doing = change(query="a b", step="verifying")
    assert in_progress(doing) == "reconfiguring the state of query 'a b': verifying"
