"""What does not come: overdue batches, old answers, and queries that are silent or gone."""

import math
from dataclasses import replace

import pytest

from dagster_sparkscale.observe.evaluate import STALE_AFTER
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, batch
from tests.observe.evaluating import seen


class TestOverdue:
    def running(self, **ages) -> tuple[Query, ...]:
        return tuple(Query(name, active=True, running_ms=age) for name, age in ages.items())

    def test_it_is_the_age_of_the_batch_in_progress_over_the_interval(self):
        assert seen(queries=self.running(a=25_000)).overdue == 2.5

    @pytest.mark.parametrize("age", [None, 0, 9_999, 10_000])
    def test_a_batch_within_its_interval_is_not_overdue(self, age):
        assert seen(queries=self.running(a=age)).overdue is None

    def test_the_worst_query_decides(self):
        assert seen(queries=self.running(a=15_000, b=40_000, c=None)).overdue == 4.0

    def test_a_query_that_ended_is_not_overdue(self):
        assert seen(queries=(Query("a", active=False, running_ms=50_000),)).overdue is None

    def test_a_query_is_stalled_if_it_completed_nothing_beside_its_overdue_batch(self):
        queries = self.running(a=15_000, b=40_000)
        assert seen(queries=queries).stalled == 4.0
        assert seen(queries=queries, batches=(batch(1, query="b"),)).stalled == 1.5
        done = (batch(1, query="a"), batch(1, query="b"))
        assert seen(queries=queries, batches=done).stalled is None
        assert seen(queries=queries, batches=done).overdue == 4.0

    def test_a_failed_batch_does_not_keep_a_query_from_being_stalled(self):
        failed = (batch(1, query="a", failed=True),)
        assert seen(queries=self.running(a=15_000), batches=failed).stalled == 1.5


class TestStaleness:
    @pytest.mark.parametrize("age", [0.0, STALE_AFTER])
    def test_a_fresh_answer_counts(self, age):
        queries = (Query(QUERY, active=True, running_ms=20_000),)
        evaluation = seen(spark_age=age, queries=queries)
        assert (evaluation.registered, evaluation.requested) == (2, 2)
        assert evaluation.overdue == evaluation.stalled == 2.0

    @pytest.mark.parametrize("age", [None, math.nextafter(STALE_AFTER, math.inf), 1e6])
    def test_an_old_answer_is_no_measurement(self, age):
        queries = (Query(QUERY, active=True, running_ms=20_000),)
        evaluation = seen(spark_age=age, queries=queries)
        assert evaluation.registered is evaluation.requested is None
        assert evaluation.overdue is evaluation.stalled is None

    def test_completed_batches_are_a_measurement_whatever_spark_says_now(self):
        assert seen(spark_age=None, batches=(batch(5),)).ratio == 0.5


class TestSilent:
    """A query that nothing is heard of, by windows and by batch intervals."""

    def query(self, ago: float, **fields) -> Query:
        return Query(fields.pop("name", QUERY), **{"active": True} | fields, heard_at=2000.0 - ago)

    def test_three_windows_are_too_long(self):
        assert seen(queries=(self.query(181),)).silent == 181
        assert seen(queries=(self.query(181),)).silent_query == QUERY
        assert seen(queries=(self.query(180),)).silent is None

    def test_so_are_three_of_its_intervals_if_these_are_longer(self):
        assert seen(queries=(self.query(300, interval_ms=100_000),)).silent is None
        assert seen(queries=(self.query(301, interval_ms=100_000),)).silent == 301

    def test_a_batch_is_heard_of_before_the_agent_looks_at_spark_again(self):
        assert seen(queries=(self.query(500),), batches=(batch(1, ago=179),)).silent is None
        other = (batch(1, ago=1, query="other"),)
        assert seen(queries=(self.query(500),), batches=other).silent == 500

    def test_the_one_that_has_been_silent_longest_is_told(self):
        queries = (self.query(200, name="a"), self.query(900, name="b"), self.query(300, name="c"))
        assert (seen(queries=queries).silent, seen(queries=queries).silent_query) == (900, "b")

    @pytest.mark.parametrize(
        "fields",
        [{"active": False}, {"trigger": "continuous"}, {"trigger": "real time"}],
        ids=["ended", "continuous", "real time"],
    )
    def test_who_has_ended_or_has_no_pace_may_be_silent(self, fields):
        assert seen(queries=(self.query(1000, **fields),)).silent is None

    def test_what_a_driver_does_not_tell_or_did_not_look_up_is_no_silence(self):
        old = Query("old", active=True)
        assert seen(queries=(old,)).silent is None
        assert seen(queries=(old, self.query(500))).silent == 500
        assert seen(queries=(self.query(1000),), spark_age=31.0).silent is None


class TestNotActiveAnyMore:
    """What Spark lists no more, or as ended, does not count."""

    GONE = Query("gone", active=False, interval_ms=1, running_ms=10**9, backlog_records=9)

    def test_its_batches_are_not_those_of_the_stream(self):
        evaluation = seen(
            queries=(Query(QUERY, active=True), self.GONE),
            batches=(batch(9, query="gone"), batch(9, query="listed no more")),
        )
        assert evaluation.completed == 0
        assert evaluation.ratio is None and evaluation.loads == ()

    def test_nor_are_its_lag_shards_and_backlog(self):
        gone = replace(self.GONE, behind_ms=10**9, source_shards=50, trigger="continuous")
        here = Query(QUERY, active=True, behind_ms=5, source_shards=2, backlog_records=1)
        evaluation = seen(queries=(here, gone))
        assert (evaluation.lag, evaluation.shards, evaluation.backlog_records) == (0.005, 2, 1)
        assert (evaluation.overdue, evaluation.unpaced) == (None, ())

    def test_what_spark_said_long_ago_is_no_measurement_of_a_backlog(self):
        old = Query(QUERY, active=True, backlog_records=5, pending_batches=3)
        evaluation = seen(queries=(old,), spark_age=31.0)
        assert evaluation.backlog_records is evaluation.pending_batches is None
