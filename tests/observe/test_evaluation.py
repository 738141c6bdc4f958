"""The ratio, the rates and the sums of a window, and why there is none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Load
from dagster_sparkscale.observe.status import Executor, Query
from tests.autoscale import reference
from tests.fakes import QUERY, batch, status
from tests.observe.evaluating import INTERVAL, seen


class TestRatio:
    def test_it_is_the_mean_processing_time_over_the_batch_interval(self):
        evaluation = seen(batches=(batch(4), batch(8, ago=15)))
        assert evaluation.ratio == 0.6
        assert evaluation.query == QUERY
        assert evaluation.processing_ms == 6000
        assert evaluation.completed == 2
        assert evaluation.silence is None

    def test_the_mean_is_cut_to_whole_milliseconds_as_in_spark(self):
        # 8999.67 ms: Spark's mean is a long, so R is 0.8999 and stays below 0.9.
        slow = batch(9)
        batches = (slow, slow, replace(slow, processing_ms=8999))
        assert seen(batches=batches).ratio == 0.8999

    def test_the_interval_the_program_really_has_wins_over_the_declared_one(self):
        query = Query(QUERY, active=True, interval_ms=5000)
        evaluation = seen(queries=(query,), batches=(batch(4),))
        assert evaluation.ratio == 0.8
        assert evaluation.batch_interval == 5.0

    def test_the_declared_interval_is_used_where_spark_does_not_tell(self):
        assert seen(batches=(batch(4),)).batch_interval == INTERVAL

    def test_batches_with_a_failed_output_operation_are_left_out(self):
        evaluation = seen(batches=(batch(2), batch(20, failed=True)))
        assert evaluation.ratio == 0.2
        assert (evaluation.completed, evaluation.failed) == (1, 1)

    def test_the_worst_query_decides(self):
        queries = tuple(Query(name, active=True) for name in ("a", "b", "c"))
        batches = (batch(2, query="a"), batch(8, query="b"), batch(5, query="c"))
        evaluation = seen(queries=queries, batches=batches)
        assert (evaluation.ratio, evaluation.query) == (0.8, "b")
        assert evaluation.processing_ms == 8000
        assert evaluation.completed == 3

    def test_the_worst_query_is_that_of_the_highest_ratio_not_of_the_longest_batch(self):
        queries = (Query("a", True, interval_ms=60_000), Query("b", True, interval_ms=1000))
        evaluation = seen(queries=queries, batches=(batch(20, query="a"), batch(0.9, query="b")))
        assert (evaluation.query, evaluation.ratio) == ("b", 0.9)
        assert evaluation.batch_interval == 1.0

    def test_the_times_shown_are_those_of_the_worst_query(self):
        queries = (Query("fast", active=True), Query("slow", active=True))
        batches = (
            batch(1, query="fast", scheduling_ms=9000),
            batch(8, query="slow", scheduling_ms=200),
        )
        evaluation = seen(queries=queries, batches=batches)
        assert (evaluation.processing_ms, evaluation.scheduling_ms) == (8000, 200)

    def test_a_query_that_ended_does_not_decide(self):
        queries = (Query("a", active=True), Query("b", active=False))
        evaluation = seen(queries=queries, batches=(batch(1, query="a"), batch(9, query="b")))
        assert (evaluation.query, evaluation.ratio) == ("a", 0.1)

    def test_an_idle_structured_query_has_a_ratio_of_zero(self):
        # Spark starts no batch where there is no data: the triggers that found none stand for it.
        evaluation = seen(batches=(batch(0, triggers=6, records=0),))
        assert evaluation.ratio == 0.0
        assert evaluation.completed == 6

    def test_idle_triggers_weigh_as_many_as_they_stand_for(self):
        evaluation = seen(batches=(batch(8), batch(0, triggers=3, records=0)))
        assert evaluation.ratio == 0.2
        assert evaluation.completed == 4

    @given(
        st.lists(st.integers(0, 10**7), min_size=1, max_size=20),
        st.integers(1, 10**6),
    )
    def test_it_agrees_with_sparks_formula(self, processing_ms, interval_ms):
        evaluation = seen(
            queries=(Query(QUERY, active=True, interval_ms=interval_ms),),
            batches=tuple(batch(ms / 1000) for ms in processing_ms),
        )
        assert evaluation.ratio == float(reference.ratio(processing_ms, interval_ms))


class TestWindow:
    def test_a_batch_counts_from_its_completion(self):
        batches = (batch(1, ago=59.9), batch(9, ago=60.1))
        assert seen(batches=batches).ratio == 0.1

    def test_a_batch_at_the_very_edge_belongs_to_the_window_before(self):
        assert seen(batches=(batch(1, ago=60.0),)).ratio is None
        assert seen(batches=(batch(1, ago=60.0 - 1e-6),)).ratio == 0.1

    def test_a_batch_completed_at_this_very_moment_counts(self):
        assert seen(batches=(batch(1, ago=0.0),)).ratio == 0.1

    @given(st.floats(0.001, 1e5), st.floats(0.001, 2e5))
    def test_two_windows_one_after_the_other_count_each_batch_once(self, window, ago):
        one = status(batches=(batch(1, ago=ago),))
        earlier = replace(one, now=one.now - window)
        completed_at = one.batches[0].completed_at
        counts = [
            evaluate(s, window=window, batch_interval=INTERVAL).completed
            for s in (one, earlier)
            if completed_at <= s.now
        ]
        covered = one.now - 2 * window < completed_at
        if covered and completed_at > earlier.now - window:
            assert sum(counts) == 1
        else:
            assert sum(counts) == 0

    def test_the_newest_count_however_old_they_are(self):
        batches = (batch(1, ago=90), batch(2, ago=80), batch(3, ago=70), batch(4, ago=5))
        counts = [
            evaluate(status(batches=batches), window=60, batch_interval=10, newest=newest).completed
            for newest in (0, 1, 2, 3, 4, 9)
        ]
        assert counts == [1, 1, 2, 3, 4, 4]

    def test_rates_are_per_second_of_the_window(self):
        batches = (batch(2, records=300), batch(2, records=300))
        evaluation = seen(window=60, batches=batches)
        assert evaluation.input_rate == 10.0
        assert evaluation.processed_rate == 150.0

    def test_what_was_gathered_is_per_second_of_the_batches_and_not_of_the_window(self) -> None:
        slow = (batch(30, records=300, ago=5), batch(30, records=100, ago=35))
        evaluation = evaluate(status(batches=slow), window=60, batch_interval=10)
        assert evaluation.gathered_rate == 20.0
        assert evaluation.input_rate == pytest.approx(400 / 60)
        told = status(
            batches=(*slow, batch(1, records=None), batch(1, records=900, failed=True)),
            queries=(Query(QUERY, active=True, interval_ms=5000),),
        )
        assert evaluate(told, window=60, batch_interval=10).gathered_rate == 40.0
        idle = status(batches=(batch(1, records=100), batch(0, records=0, triggers=3)))
        assert evaluate(idle, window=60, batch_interval=10).gathered_rate == 2.5
        assert evaluate(status(), window=60, batch_interval=10).gathered_rate is None

    def test_records_of_a_failed_batch_were_not_processed(self):
        evaluation = seen(batches=(batch(2, records=120), batch(5, records=900, failed=True)))
        assert (evaluation.input_rate, evaluation.processed_rate) == (2.0, 60.0)

    def test_a_batch_of_unknown_size_is_not_taken_for_an_empty_one(self):
        evaluation = seen(batches=(batch(2, records=None),))
        assert evaluation.input_rate is evaluation.processed_rate is None
        assert evaluation.ratio == 0.2
        mixed = seen(batches=(batch(2, records=None), batch(1, records=60)))
        assert (mixed.input_rate, mixed.processed_rate) == (1.0, 60.0)

    def test_empty_batches_enter_at_a_rate_of_zero_and_are_processed_at_none(self):
        evaluation = seen(batches=(batch(1, records=0),))
        assert (evaluation.input_rate, evaluation.processed_rate) == (0.0, None)


class TestLoads:
    def test_each_query_with_a_ratio_is_told_the_worst_first(self):
        queries = tuple(Query(name, active=True) for name in ("a", "b", "c"))
        batches = (
            batch(2, query="a", planning_ms=500),
            batch(8, query="b", planning_ms=7_999),
            batch(4, query="b", planning_ms=2_000),
        )
        loads = seen(queries=queries, batches=batches).loads
        assert loads == (Load("b", 0.6, 0.4999), Load("a", 0.2, 0.05))

    def test_tasks_are_known_if_every_registered_executor_tells(self):
        one, two = Executor("1", "a", 2, active_tasks=3), Executor("2", "b", 2, 1, receivers=1)
        assert seen(executors=(one, two), registered=2).active_tasks == 3
        assert seen(executors=(one,), registered=2).active_tasks is None
        assert seen(executors=(one, two), spark_age=31.0).active_tasks is None
        assert seen(executors=(), registered=0).active_tasks is None


class TestSums:
    def test_the_whole_is_unknown_as_soon_as_a_part_is(self):
        known = Query("a", True, backlog_records=5, pending_batches=1)
        unknown = Query("b", True)
        both = seen(queries=(known, known))
        assert (both.backlog_records, both.pending_batches) == (10, 2)
        mixed = seen(queries=(known, unknown))
        assert mixed.backlog_records is mixed.pending_batches is None
        assert seen(queries=()).backlog_records is None

    def test_scheduling_delay_is_averaged_where_it_is_known(self):
        batches = (
            batch(1, scheduling_ms=100),
            batch(1, scheduling_ms=300),
            batch(1, scheduling_ms=None),
        )
        assert seen(batches=batches).scheduling_ms == 200
        assert seen(batches=batches[2:]).scheduling_ms is None


class TestSilence:
    """Where R is unknown, it says why."""

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"phase": "starting", "queries": ()}, "the driver is still starting"),
            ({"queries": ()}, "the program has not started a query yet"),
            ({"queries": (Query("a", active=False),)}, "no query is active"),
            (
                {"queries": (Query("a", active=False, error="out of memory"),)},
                "no query is active; the last one failed: out of memory",
            ),
            ({}, "no batch completed in the last 60 s"),
            (
                {"batches": (batch(1, failed=True), batch(2, failed=True))},
                "all 2 batches of the last 60 s failed",
            ),
            (
                # The batches of a query that ended say nothing about the one that runs.
                {
                    "queries": (Query("a", active=True), Query("b", active=False)),
                    "batches": (batch(1, query="b"), batch(1, query="b")),
                },
                "no batch completed in the last 60 s",
            ),
        ],
    )
    def test_it_is_told_in_words(self, fields, why):
        evaluation = seen(**fields)
        assert evaluation.ratio is None
        assert evaluation.silence == why


names = st.sampled_from(["a", "b"])
queries = st.builds(
    Query,
    name=names,
    active=st.booleans(),
    interval_ms=st.none() | st.integers(0, 10**6),
    running_ms=st.none() | st.integers(0, 10**8),
)
batches = st.builds(
    batch,
    st.floats(0, 1000),
    ago=st.floats(-10, 200),
    query=names,
    failed=st.booleans(),
    records=st.none() | st.integers(0, 10**9),
    triggers=st.integers(1, 100),
)


@given(
    st.lists(queries, max_size=3).map(tuple),
    st.lists(batches, max_size=6).map(tuple),
    st.none() | st.floats(0, 100),
)
def test_whatever_is_reported_what_is_said_of_it_hangs_together(qs, bs, age):
    report = status(queries=qs, batches=bs, spark_age=age)
    evaluation = evaluate(report, window=60.0, batch_interval=INTERVAL)
    assert evaluation == evaluate(report, window=60.0, batch_interval=INTERVAL)
    # Either R or why there is none.
    assert (evaluation.ratio is None) == bool(evaluation.silence)
    assert (evaluation.ratio is None) == (evaluation.query is None)
    assert evaluation.ratio is None or evaluation.ratio >= 0
    assert evaluation.overdue is None or evaluation.overdue > 1
    if evaluation.stalled is not None:
        assert evaluation.overdue is not None
        assert evaluation.stalled <= evaluation.overdue
    if not any(q.active for q in qs):
        assert evaluation.ratio is evaluation.overdue is None


class TestMoreBatchesThanAreKept:
    def test_the_rate_is_that_of_the_time_of_which_all_are_kept(self):
        """Of five queries with ten batches of 100 records a second each, 1000 batches are kept."""
        now = status().now
        batches = tuple(batch(0.1, ago=20 - n * 0.02, records=100) for n in range(1000))
        cut = seen(batches=batches, dropped_at=now - 20)
        assert cut.input_rate == pytest.approx(5000)
        # An older agent does not tell, and one that keeps all has dropped them long ago.
        assert seen(batches=batches).input_rate == pytest.approx(100_000 / 60)
        assert seen(batches=batches, dropped_at=now - 61).input_rate == pytest.approx(100_000 / 60)

    def test_where_it_can_t_be_told_it_is_no_rate(self):
        assert seen(batches=(batch(1, records=5),), dropped_at=status().now).input_rate is None
