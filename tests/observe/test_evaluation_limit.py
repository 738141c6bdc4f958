"""The limit of a query's batches, and whether they take all that it allows."""

from dataclasses import replace

import pytest

from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, batch
from tests.observe.evaluating import INTERVAL, seen


def limited(seconds: float = 1, ago: float = 5, **fields):
    """A batch that might take 100 records."""
    return replace(batch(seconds, ago=ago), **{"records": 100, "limit": 100.0, **fields})


class TestLimit:
    def test_a_query_without_a_limit_has_none(self):
        evaluation = seen(batches=(limited(limit=None),))
        assert (evaluation.limit, evaluation.throttled) == (None, None)

    def test_it_is_told_in_records_a_second_as_of_the_last_batch(self):
        evaluation = seen(batches=(limited(ago=15, limit=50.0), limited(ago=5, limit=200.0)))
        assert evaluation.limit == 200 / INTERVAL

    def test_it_is_that_of_all_active_queries_together_in_their_own_intervals(self):
        queries = (Query("a", True, interval_ms=1000), Query("b", True, interval_ms=4000))
        batches = (limited(query="a"), limited(query="b"))
        assert seen(queries=queries, batches=batches).limit == 100 + 25
        unknown = (limited(query="a"), limited(query="b", limit=None))
        assert seen(queries=queries, batches=unknown).limit is None
        assert seen(queries=queries, batches=batches[:1]).limit is None, "b may have none"

    def test_triggers_without_data_do_not_hide_it(self):
        nothing = replace(batch(0, ago=1, triggers=3), records=0)
        assert seen(batches=(limited(), nothing)).limit == 10

    def test_batches_that_take_all_they_may_are_throttled(self):
        assert seen(batches=(limited(), limited(ago=15))).throttled == QUERY

    @pytest.mark.parametrize(
        ("other", "throttled"),
        [
            ({"records": 90}, QUERY),
            ({"records": 89}, None),
            ({"records": 0, "limit": None, "processing_ms": 0}, None),
            ({"limit": None}, None),
            ({"records": None}, None),
            ({"failed": True, "records": 0}, QUERY),
        ],
    )
    def test_all_batches_of_the_window_together_must_have_taken_nearly_that(self, other, throttled):
        assert seen(batches=(limited(), limited(ago=15, **other))).throttled == throttled

    def test_blocks_that_fell_into_the_next_batch_make_no_difference(self):
        uneven = (limited(records=60), limited(ago=15, records=140))
        assert seen(batches=uneven).throttled == QUERY
        far_from_it = (limited(records=49), limited(ago=15, records=151))
        assert seen(batches=far_from_it).throttled is None

    def test_failed_batches_alone_say_nothing(self):
        assert seen(batches=(limited(failed=True),)).throttled is None

    def test_of_several_it_is_the_one_with_the_highest_ratio(self):
        queries = tuple(Query(name, active=True) for name in ("a", "b", "c"))
        batches = (
            limited(2, query="a"),
            limited(7, query="b"),
            limited(9, query="c", records=10),
        )
        assert seen(queries=queries, batches=batches).throttled == "b"

    def test_a_query_that_has_ended_is_not(self):
        queries = (Query("a", active=True), Query("b", active=False))
        batches = (limited(query="a", records=1), limited(query="b"))
        assert seen(queries=queries, batches=batches).throttled is None
