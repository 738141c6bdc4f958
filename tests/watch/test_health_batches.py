"""Health checks of what the batches of a stream say: they complete, in time, and lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.findings import STARTUP_GRACE, Health
from dagster_sparkscale.observe.status import Executor, Query
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, status
from tests.watch.health import HOLD, NOW, STUCK, examined, findings, unseen


class TestBatchesCompleting:
    def found(self, **fields):
        return findings(**fields)[Health.BATCHES_COMPLETING]

    def test_without_an_answer_it_cannot_be_told(self):
        assert unseen(driver=driver())[Health.BATCHES_COMPLETING].passed is None

    def test_completed_batches_pass(self):
        found = self.found(batches=(batch(5), batch(5)))
        assert (found.passed, found.text) == (True, "2 batches completed in the last 60 s")

    def test_a_query_that_failed_fails_whatever_the_others_do(self):
        queries = (Query(QUERY, active=True), Query("b", active=False, error="out of memory"))
        found = self.found(queries=queries, batches=(batch(1),))
        assert (found.passed, found.text) == (False, "query 'b' failed: out of memory")

    def test_a_query_that_runs_again_after_an_error_passes(self):
        query = Query(QUERY, active=True, error="out of memory")
        assert self.found(queries=(query,), batches=(batch(1),)).passed is True

    def test_a_program_has_time_to_start_its_first_query(self):
        early = self.found(queries=(), started_at=2000 - STARTUP_GRACE)
        late = self.found(queries=(), started_at=2000 - STARTUP_GRACE - 1)
        assert (early.passed, late.passed) == (None, False)
        assert late.text == "the program has not started a query in 301 s"

    def test_batches_that_all_fail_fail(self):
        found = self.found(batches=(batch(1, failed=True),) * 3)
        assert (found.passed, found.text) == (False, "all 3 batches of the last 60 s failed")

    def test_a_batch_that_fails_among_others_passes(self):
        assert self.found(batches=(batch(1, failed=True), batch(1))).passed is True

    def test_a_stuck_batch_fails(self):
        found = self.found(queries=(Query("a", active=True, running_ms=90_000),))
        assert found.passed is False
        assert found.text == STUCK

    def test_a_stuck_batch_says_what_spark_does(self):
        doing = "Getting offsets from KafkaV2[Subscribe[clicks]]"
        query = Query("a", active=True, running_ms=90_000, doing=doing)
        idle = Query("b", active=True, doing="Waiting for next trigger")
        found = self.found(queries=(query, idle))
        assert found.text == (f"{STUCK}; Spark says that query 'a' is at {doing!r}")

    def test_of_many_those_are_told_that_have_been_at_it_for_longest(self):
        queries = [Query(name, True, running_ms=100, doing="Processing new data") for name in "bcd"]
        stuck = Query("a", True, running_ms=90_000, doing="Getting offsets from x")
        found = self.found(queries=(*queries, stuck))
        assert "that query 'a' is at 'Getting offsets from x', query 'b' is at" in found.text

    def test_one_stuck_query_fails_though_another_completes_batches(self):
        queries = (Query("a", active=True), Query("b", active=True, running_ms=90_000))
        assert self.found(queries=queries, batches=(batch(1, query="a"),)).passed is False

    def test_a_slow_batch_of_a_query_that_completes_others_passes(self):
        queries = (Query(QUERY, active=True, running_ms=15_000),)
        assert self.found(queries=queries, batches=(batch(1),)).passed is True

    def test_queries_that_all_ended_fail(self):
        found = self.found(queries=(Query("a", active=False),))
        assert (found.passed, found.text) == (False, "no query is active")

    def test_silence_within_the_interval_cannot_be_told(self):
        assert self.found().passed is None

    def test_an_active_query_that_is_silent_for_far_longer_fails(self):
        queries = (Query(QUERY, active=True, heard_at=1400.0),)
        found = self.found(queries=queries)
        assert (found.passed, found.urgent) == (False, True)
        assert found.text == (
            "nothing has been heard of query 'counts' for 600 s: no batch, and no trigger that "
            "found no data"
        )
        assert self.found(queries=(Query(QUERY, active=True, heard_at=1900.0),)).passed is None

    def test_it_fails_though_another_completes_batches(self):
        queries = (Query(QUERY, active=True), Query("b", active=True, heard_at=1400.0))
        assert self.found(queries=queries, batches=(batch(1),)).passed is False

    def test_batches_of_a_query_that_has_ended_are_no_sign_of_one_that_is_silent(self):
        queries = (Query(QUERY, active=True), Query("b", active=False))
        assert self.found(queries=queries, batches=(batch(1, query="b"),)).passed is None

    @pytest.mark.parametrize(("tasks", "ending"), [(0, ", and no executor has a task"), (1, "")])
    def test_of_a_stuck_batch_it_says_whether_executors_work_on_it(self, tasks, ending):
        found = self.found(
            queries=(Query("a", active=True, running_ms=90_000),),
            registered=1,
            executors=(Executor("1", "host", 1, active_tasks=tasks),),
        )
        assert found.text == (
            "no batch completes: the one in progress has run for 90 s (its batch interval is 10 s)"
            f"{ending}"
        )


class TestRatioBelowOne:
    @pytest.mark.parametrize(("seconds", "passed"), [(0, True), (9.999, True), (10, False)])
    def test_it_compares_the_ratio_with_one(self, seconds, passed):
        assert findings(batches=(batch(seconds),))[Health.RATIO_BELOW_ONE].passed is passed

    def test_it_says_what_of_it_no_executor_could_take_over(self):
        planned = findings(batches=(batch(12, planning_ms=11_000),))[Health.RATIO_BELOW_ONE]
        assert planned.text == "R is 1.20, of which the driver spends 1.10 on planning"
        worked = findings(batches=(batch(12, planning_ms=5_000),))[Health.RATIO_BELOW_ONE]
        assert worked.text == "R is 1.20"

    def test_a_batch_in_which_the_clock_was_set_back_can_be_told_of(self):
        assert findings(batches=(batch(-20),))[Health.RATIO_BELOW_ONE].text == "R is -2.00"

    def test_a_stuck_batch_counts_as_what_it_has_taken(self):
        found = findings(queries=(Query("a", active=True, running_ms=25_000),))
        assert found[Health.RATIO_BELOW_ONE].text == (
            "R counts as 2.50: no batch completes: the one in progress has run for 25 s "
            "(its batch interval is 10 s)"
        )

    def test_the_worse_of_a_slow_and_a_stuck_query_counts(self):
        queries = (Query("a", active=True), Query("b", active=True, running_ms=25_000))
        found = findings(queries=queries, batches=(batch(5, query="a"),))
        assert found[Health.RATIO_BELOW_ONE].passed is False

    def test_without_a_ratio_it_cannot_be_told(self):
        assert findings()[Health.RATIO_BELOW_ONE].passed is None
        assert unseen()[Health.RATIO_BELOW_ONE].passed is None

    def test_a_driver_is_not_judged_by_its_first_window(self):
        slow = {"batches": (batch(50),)}
        young = findings(started_at=2000 - 59, **slow)[Health.RATIO_BELOW_ONE]
        grown = findings(started_at=2000 - 60, **slow)[Health.RATIO_BELOW_ONE]
        assert (young.passed, grown.passed) == (None, False)


class TestBelowMaximum:
    def test_a_pinned_stream_fails(self):
        found = findings(Hold("10 are the maximum", pinned=True), batches=(batch(50),))
        assert found[Health.BELOW_MAXIMUM].passed is False
        assert found[Health.BELOW_MAXIMUM].text == "10 are the maximum"

    @pytest.mark.parametrize("decision", [HOLD, ScaleTo(4, "up")])
    def test_any_other_decision_on_a_known_ratio_passes(self, decision):
        assert findings(decision, batches=(batch(5),))[Health.BELOW_MAXIMUM].passed is True

    def test_without_a_ratio_it_cannot_be_told(self):
        assert findings()[Health.BELOW_MAXIMUM].passed is None
        assert unseen()[Health.BELOW_MAXIMUM].passed is None


class TestLagWithinLimit:
    def found(self, behind_ms, max_lag=60.0, **fields):
        queries = (Query(QUERY, active=True, behind_ms=behind_ms),)
        return findings(max_lag=max_lag, queries=queries, **fields)[Health.LAG_WITHIN_LIMIT]

    @pytest.mark.parametrize(("behind_ms", "passed"), [(0, True), (60_000, True), (60_001, False)])
    def test_it_compares_the_lag_with_the_limit(self, behind_ms, passed):
        found = self.found(behind_ms)
        assert (found.passed, found.urgent) == (passed, False)
        assert found.text.endswith("behind the tip of the source; max_lag is 60 s")

    def test_it_cannot_be_told_without_a_lag_a_limit_or_an_answer(self):
        assert self.found(None).text == "no source tells how far behind the stream is"
        assert self.found(9, max_lag=None).text == "no max_lag is declared"
        assert self.found(9, spark_age=1e6).passed is None
        assert unseen()[Health.LAG_WITHIN_LIMIT].passed is None

    @pytest.mark.parametrize(
        ("least", "known", "passed"),
        [(45_000, None, None), (61_000, None, False), (None, 61_000, False), (None, 9, None)],
    )
    def test_what_is_known_of_it_is_a_lower_bound(self, least, known, passed):
        """New partitions of a topic leave the lag unknown, and not the stream in time."""
        query = Query(
            QUERY, active=True, lag_unknown="partition t-3 is new", behind_at_least_ms=least
        )
        other = Query("other", active=True, behind_ms=known)
        found = findings(max_lag=60.0, queries=(query, other))[Health.LAG_WITHIN_LIMIT]
        assert found.passed is passed
        assert found.text.startswith("at least, as partition t-3 is new, ")

    def test_nothing_may_be_known_of_it(self):
        query = Query(QUERY, active=True, lag_unknown="partition t-3 is new")
        found = findings(max_lag=60.0, queries=(query,))[Health.LAG_WITHIN_LIMIT]
        assert (found.passed, found.text) == (
            *(None, "no source tells how far behind the stream is: partition t-3 is new"),
        )

    def test_a_driver_is_not_judged_by_its_first_window(self):
        assert self.found(10**6, started_at=2000 - 59).passed is None
        assert self.found(10**6, started_at=2000 - 60).passed is False


class TestNoDataLost:
    def found(self, *lost, active=True, **fields):
        queries = tuple(Query(f"q{n}", active, source_lost=each) for n, each in enumerate(lost))
        return findings(queries=queries, **fields)[Health.NO_DATA_LOST]

    def test_a_source_that_lost_nothing_passes(self):
        assert self.found(0).passed is True
        assert self.found(0, None).passed is True

    @pytest.mark.parametrize("fields", [{}, {"spark_age": 1e6}, {"active": False}])
    def test_what_is_lost_fails_whatever_the_query_does_since(self, fields):
        found = self.found(2, 0, 1, None, **fields)
        assert (found.passed, found.urgent, found.mark) == (False, False, "3")
        assert "3 time(s) so far" in found.text

    def test_without_a_source_that_tells_it_cannot_be_told(self):
        assert self.found(None).passed is None
        assert unseen()[Health.NO_DATA_LOST].passed is None


maybe = st.none() | st.floats(0, 100)


@given(
    st.builds(
        Evaluation,
        window=st.floats(1, 100),
        ratio=maybe,
        overdue=maybe,
        stalled=maybe,
        completed=st.integers(0, 5),
        failed=st.integers(0, 5),
        uptime=maybe,
        lag=maybe,
        lost=st.none() | st.integers(0, 5),
    )
    | st.none(),
    st.sampled_from(
        [
            Sighting("clicks"),
            Sighting("clicks", error="x"),
            Sighting("clicks", driver(), status()),
            Sighting("clicks", driver(), status(queries=())),
            Sighting("clicks", driver(DriverState.FAILED)),
        ]
    ),
    st.sampled_from([HOLD, Hold("pinned", pinned=True), ScaleTo(3, "up")]),
    maybe,
)
def test_every_finding_says_something(seen, sighting, decision, max_lag):
    found = examined(sighting, seen, decision, max_lag, now=NOW)
    assert set(found) == set(Health)
    assert all(f.text for f in found.values())
    assert found[Health.RUNNING].passed is not None
