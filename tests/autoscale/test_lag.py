"""How far behind its source a stream is: measured, and what it does to a decision."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Query
from tests.autoscale import reference
from tests.autoscale.deciding import any_bounds, anything, policies, ratios, target
from tests.fakes import QUERY, batch, status

POLICY = RatioPolicy(max_lag="5 min")
BOUNDS = Bounds(minimum=1, maximum=10, initial=1)


def seen(**fields) -> Evaluation:
    return evaluate(status(**fields), window=60.0, batch_interval=10.0)


def decided(policy=POLICY, bounds=BOUNDS, registered=4, requested=None, **measured):
    """The decision on a stream that is 15 minutes behind, where nothing else is said."""
    plain = {"lag": 900.0, "lag_query": "q", "silence": "nothing seen", "window": 60.0}
    requested = registered if requested is None else requested
    evaluation = Evaluation(**plain | measured, registered=registered, requested=requested)
    return policy.decide(bounds, evaluation)


class TestMeasured:
    def test_the_lag_is_that_of_the_query_furthest_behind(self):
        queries = (
            Query("a", True, behind_ms=1500),
            Query("b", True, interval_ms=1000, behind_ms=2500),
            Query("silent", True),
            Query("ended", False, behind_ms=10**9),
        )
        evaluation = seen(queries=queries)
        assert (evaluation.lag, evaluation.lag_query, evaluation.lag_paced) == (2.5, "b", True)
        assert not seen(queries=queries[:1]).lag_paced  # as fast as possible, or not told

    def test_no_lag_is_measured_where_no_source_tells(self):
        evaluation = seen()
        assert evaluation.lag is evaluation.lag_query is evaluation.shards is None
        assert evaluation.lost is evaluation.catching_up is None
        at_the_tip = seen(queries=(Query(QUERY, True, behind_ms=0, source_lost=0),))
        assert (at_the_tip.lag, at_the_tip.lost) == (0.0, 0)

    def test_why_a_lag_is_not_known_is_told_of_active_queries(self):
        gone = Query("gone", True, lag_unknown="partition t-1 is gone from Kafka")
        known, ended = Query("a", True, behind_ms=5), replace(gone, active=False)
        assert seen(queries=(known, gone)).lag_unknown == gone.lag_unknown
        assert seen(queries=(known, ended)).lag_unknown is None
        assert seen(queries=(known, gone), spark_age=31.0).lag_unknown is None

    @pytest.mark.parametrize("age", [None, 31.0])
    def test_an_old_answer_of_spark_is_no_measurement(self, age):
        query = Query(QUERY, True, behind_ms=1500, source_shards=4, source_lost=2)
        evaluation = seen(queries=(query,), spark_age=age)
        assert evaluation.lag is evaluation.shards is None
        assert evaluation.lost == 2  # what is lost stays lost

    def test_catching_up_is_what_the_lag_lost_per_second(self):
        query = Query(QUERY, True, behind_ms=90_000)
        batches = (
            batch(1, ago=40, behind_ms=120_000),
            batch(1, ago=10, behind_ms=90_000),
            batch(1, ago=30, behind_ms=None),
            batch(1, ago=70, behind_ms=900_000),  # before the window
            batch(1, ago=50, behind_ms=900_000, query="other"),
        )
        assert seen(queries=(query,), batches=batches).catching_up == 1.0
        grows = tuple(replace(b, behind_ms=(b.behind_ms or 0) * -1 + 10**6) for b in batches)
        assert seen(queries=(query,), batches=grows).catching_up < 0

    def test_batches_a_moment_apart_are_a_trend(self):
        query = Query(QUERY, True, behind_ms=90_000)
        batches = (batch(0.1, ago=1.5, behind_ms=91_000), batch(0.1, ago=1.0, behind_ms=90_000))
        assert seen(queries=(query,), batches=batches).catching_up == 2.0

    def test_a_batch_that_failed_tells_how_far_behind_the_stream_was_all_the_same(self):
        query = Query(QUERY, True, behind_ms=150_000)
        batches = (
            batch(1, ago=40, behind_ms=120_000),
            batch(1, ago=10, behind_ms=150_000, failed=True),
        )
        assert seen(queries=(query,), batches=batches).catching_up == -1.0

    @pytest.mark.parametrize(
        "batches",
        [
            (),
            (batch(1, behind_ms=5),),
            (batch(1), batch(1, ago=9)),
            (batch(1, behind_ms=5), batch(1, behind_ms=9)),  # at the same moment
        ],
    )
    def test_one_measurement_is_no_trend(self, batches):
        query = Query(QUERY, True, behind_ms=90_000)
        assert seen(queries=(query,), batches=batches).catching_up is None

    def test_what_queries_lost_is_added_up_ended_ones_included(self):
        queries = (Query("a", True, source_lost=1), Query("b", False, source_lost=2), Query("c", 1))
        assert seen(queries=queries).lost == 3


class TestDecided:
    def test_between_the_thresholds_it_goes_up_by_one(self):
        assert decided(ratio=0.5, query="q") == ScaleTo(
            5, "4 registered -> 5: lag 900.0 s of query 'q' is above 300 s, R 0.50 of query 'q'"
        )

    def test_it_goes_up_as_at_the_threshold(self):
        assert decided(RatioPolicy(max_lag=300, scale_up_ratio=3.0), ratio=0.5).target == 7

    def test_by_a_high_ratio_it_goes_up_as_ever(self):
        assert decided(ratio=3.0).target == decided(ratio=3.0, lag=None).target == 7
        assert decided(ratio=3.0).reason.startswith("4 registered -> 7: R 3.00 is at or above 0.9")

    @pytest.mark.parametrize("lag", [None, 0.0, 300.0])
    @pytest.mark.parametrize("ratio", [None, 0.1, 0.5, 3.0])
    def test_a_lag_that_is_not_too_long_or_not_known_changes_nothing(self, lag, ratio):
        without = decided(RatioPolicy(), ratio=ratio)
        assert decided(ratio=ratio, lag=lag) == without

    def test_a_policy_without_a_limit_does_not_look_at_it(self):
        assert decided(RatioPolicy(), ratio=0.1, lag=1e9).target == 3

    def test_batches_that_wait_most_of_the_time_are_bounded_and_more_executors_no_help(self):
        decision = decided(ratio=0.2, lag_paced=True)
        assert isinstance(decision, Hold)
        assert decision.reason == (
            "lag 900.0 s of query 'q' is above 300 s, but R 0.20 is at or below 0.3: batches wait "
            "for their interval most of the time, and more executors would only wait longer; a "
            "batch is bounded by what its source may read: raise that"
        )

    def test_batches_that_do_not_wait_are_helped_by_more_executors_whatever_r_is(self):
        assert decided(ratio=0.2, lag_paced=False).target == 5

    def test_a_stream_that_will_have_caught_up_within_a_window_is_left_alone(self):
        decision = decided(ratio=0.5, catching_up=10.0)  # 600 s too far behind
        assert decision == Hold(
            "lag 900.0 s of query 'q' is above 300 s, but it falls by 10.00 s a second and will "
            "be below that in 60 s"
        )
        assert decided(ratio=0.5, catching_up=9.9).target == 5
        assert decided(ratio=0.5, catching_up=-10.0).target == 5
        assert decided(ratio=0.5, catching_up=0.0).target == 5
        assert decided(ratio=1.0, catching_up=10.0).target == 5

    def test_an_overdue_batch_is_no_stream_that_catches_up_or_waits(self):
        assert decided(ratio=0.5, catching_up=10.0, overdue=1.2).target == 5
        assert decided(ratio=0.2, lag_paced=True, overdue=1.2).target == 5

    def test_nor_is_one_that_no_executor_has_a_task_of_helped_by_more_of_them(self):
        decision = decided(ratio=0.5, overdue=1.2, active_tasks=0)
        assert isinstance(decision, Hold)
        assert "the batch in progress is overdue, and no executor has a task" in decision.reason
        assert decided(ratio=0.5, overdue=1.2, active_tasks=1).target == 5
        assert decided(ratio=0.5, active_tasks=0).target == 5  # it looked between two batches

    def test_without_a_completed_batch_it_cannot_be_told_whether_more_would_help(self):
        decision = decided(ratio=None)
        assert decision == Hold(
            "R is unknown: nothing seen; lag 900.0 s of query 'q' is above 300 s"
        )

    def test_a_stuck_batch_that_is_awaited_is_helped_if_the_lag_is_too_long(self):
        policy = RatioPolicy(max_lag=300, scale_up_ratio=2.0)
        decision = decided(policy, ratio=None, overdue=1.5, stalled=1.5)
        assert decision.target == 6
        assert "R is unknown" in decision.reason
        assert isinstance(decided(policy, lag=1.0, overdue=1.5, stalled=1.5), Hold)

    def test_nor_is_what_a_stuck_batch_waits_for_called_off(self):
        decision = decided(ratio=None, overdue=1.2, stalled=1.2, registered=4, requested=9)
        assert isinstance(decision, Hold)
        without = decided(RatioPolicy(), ratio=None, overdue=1.2, stalled=1.2, requested=9)
        assert without.target == 5  # without a limit what is outstanding is overridden, as ever

    @pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
    def test_what_is_outstanding_is_not_called_off(self, ratio):
        decision = decided(ratio=ratio, registered=4, requested=9)
        assert isinstance(decision, Hold) and not decision.pinned
        assert "9 are requested already, 4 registered so far" in decision.reason

    def test_nor_at_the_minimum(self):
        assert isinstance(decided(ratio=0.1, lag_paced=True, registered=1, requested=9), Hold)

    def test_at_the_maximum_it_is_pinned(self):
        decision = decided(ratio=0.5, registered=10)
        assert decision.pinned
        assert decision.reason.endswith("R 0.50, but 10 executors are the maximum")

    def test_a_driver_is_not_judged_by_its_first_window(self):
        assert isinstance(decided(ratio=0.5, uptime=59.0), Hold)
        assert isinstance(decided(ratio=0.5, uptime=60.0), ScaleTo)


lags = st.floats(0, 1e6)
late_or_not = st.fixed_dictionaries(
    {
        "lag": st.none() | lags,
        "catching_up": st.none() | st.floats(-100, 1000),
        "lag_paced": st.booleans(),
    }
)
limited = st.tuples(policies, st.floats(1, 1e5)).map(
    lambda pair: pair[0].model_copy(update={"max_lag": pair[1]})
)


class TestProperties:
    @given(
        ratio=ratios,
        down=st.floats(0.01, 4),
        between=st.floats(0.01, 4),
        low=st.integers(1, 20),
        above_low=st.integers(0, 20),
        below_high=st.none() | st.integers(0, 20),
        measured=late_or_not,
        max_lag=st.floats(1, 1e5),
    )
    def test_the_decision_is_that_of_the_reference(
        self, ratio, down, between, low, above_low, below_high, measured, max_lag
    ):
        registered, up = low + above_low, down + between
        high = None if below_high is None else registered + below_high
        policy = RatioPolicy(scale_up_ratio=up, scale_down_ratio=down, max_lag=max_lag)
        lag, falling = measured["lag"], measured["catching_up"]
        late = lag is not None and lag > max_lag
        expected = reference.executors_with_a_source(
            Fraction(ratio),
            registered=registered,
            up=Fraction(up),
            down=Fraction(down),
            low=low,
            high=high,
            useful=None,
            late=late,
            catching_up=late and falling is not None and lag - falling * 60 <= max_lag,
            paced=measured["lag_paced"],
        )
        if late and falling is not None:
            assume(abs(lag - falling * 60 - max_lag) > 1e-6)  # two ways to round one number
        # What R would be on one less is near the threshold: floats decide.
        assume(abs(ratio * registered - up * (registered - 1)) > 1e-6)
        decision = decided(policy, Bounds(low, high, low), registered, ratio=ratio, **measured)
        assert target(decision, registered) == expected

    @given(limited, any_bounds, anything, lags, st.integers(0, 100))
    def test_nothing_is_removed_or_called_off_beside_a_lag_that_is_too_long(
        self, policy, bounds, seen, above, requested
    ):
        requested = bounds.clamp(requested)
        seen = replace(seen, lag=policy.max_lag + above + 0.001, requested=requested)
        decision = policy.decide(bounds, seen)
        if isinstance(decision, ScaleTo):
            assert decision.target > seen.requested

    @given(limited, any_bounds, anything, late_or_not)
    def test_a_target_is_within_the_bounds_and_a_change_and_has_its_reason(
        self, policy, bounds, seen, measured
    ):
        decision = policy.decide(bounds, replace(seen, **measured))
        assert decision.reason.strip()
        if isinstance(decision, ScaleTo):
            assert bounds.clamp(decision.target) == decision.target
            assert decision.target != seen.requested

    @given(
        limited, any_bounds, st.integers(1, 100), st.tuples(ratios, ratios).map(sorted), late_or_not
    )
    def test_more_load_never_means_fewer_executors(
        self, policy, bounds, registered, pair, measured
    ):
        registered = bounds.clamp(registered)
        less, more = (
            target(decided(policy, bounds, registered, ratio=ratio, **measured), registered)
            for ratio in pair
        )
        assert less <= more

    @given(
        policy=limited,
        bounds=any_bounds,
        registered=st.integers(1, 100),
        extra=st.integers(0, 20),
        ratio=st.none() | ratios,
        lags=st.tuples(lags, lags).map(sorted),
        measured=late_or_not,
    )
    def test_a_longer_lag_never_means_fewer_executors(
        self, policy, bounds, registered, extra, ratio, lags, measured
    ):
        registered = bounds.clamp(registered)
        requested = bounds.clamp(registered + extra)
        shorter, longer = (
            target(
                decided(
                    policy, bounds, registered, requested, ratio=ratio, **measured | {"lag": lag}
                ),
                requested,
            )
            for lag in lags
        )
        assert shorter <= longer


WHY = "nothing was heard of the query for 75 s: does Kafka answer it?"
CALM = {"lag": None, "lag_query": None, "ratio": 0.1, "lag_unknown": WHY}


class TestUnknown:
    """A lag that could be told and is not known is none of zero."""

    def test_nothing_is_removed_where_a_lag_has_a_limit_and_is_not_known(self):
        decision = decided(**CALM)
        assert isinstance(decision, Hold)
        assert decision.reason == (f"R 0.10 is at or below 0.3, but its lag is not known: {WHY}")
        # Nor is what is outstanding called off.
        assert isinstance(decided(**CALM, registered=1, requested=3), Hold)

    def test_without_a_limit_r_alone_decides(self):
        assert decided(RatioPolicy(), **CALM).target == 3

    def test_where_no_source_could_tell_r_alone_decides(self):
        assert decided(**CALM | {"lag_unknown": None}).target == 3

    def test_an_overload_needs_no_lag(self):
        assert decided(**CALM | {"ratio": 1.2}).target == 5
