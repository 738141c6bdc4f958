"""Autoscaling of a query that takes all that a limit lets it: R is then what the limit makes it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation, Load
from tests.autoscale.deciding import any_bounds, anything, policies, ratios, target

BOUNDS = Bounds(minimum=1, maximum=10, initial=1)
FIXED = {
    "set": "the limit is set: raise it",
    "max_rate": "the limit is the max_rate of its backpressure: raise that",
    "source": "the options of its source bound it: raise those",
    "tuned": "the limit was tuned: set another by sparkscale retune --set, or put it back",
}
GROWING = "the executors have time left, which the estimator does not use (yet)"


def decided(
    policy: RatioPolicy | None = None,
    bounds: Bounds = BOUNDS,
    registered: int = 4,
    requested: int | None = None,
    **measured: Any,
) -> Hold | ScaleTo:
    """The decision on a query at a limit of its estimator, where nothing else is said."""
    plain: dict[str, Any] = {
        "window": 60.0,
        "ratio": 0.88,
        "query": "q",
        "throttled": "q",
        "throttled_by": "estimator",
        "throttled_limit": 1200.0,
        "batch_interval": 10.0,
    }
    requested = registered if requested is None else requested
    seen = Evaluation(**plain | measured, registered=registered, requested=requested)
    return (policy or RatioPolicy()).decide(bounds, seen)


class TestALimitThatExecutorsRaise:
    def test_it_goes_up_as_if_r_stood_at_its_threshold(self) -> None:
        assert decided() == ScaleTo(
            5,
            "4 registered -> 5: input of query 'q' stands at its limit of 1,200 records/s "
            "(what waits is not known), R 0.88",
        )
        assert decided(RatioPolicy(scale_up_ratio=3.0)).target == 7
        assert decided(ratio=0.31).target == 5

    @pytest.mark.parametrize("by", ["estimator", "start", None])
    def test_whose_it_is_makes_no_difference_as_long_as_no_person_chose_it(self, by: Any) -> None:
        assert decided(throttled_by=by).target == 5

    def test_without_it_the_same_r_holds(self) -> None:
        assert isinstance(decided(throttled=None), Hold)

    @pytest.mark.parametrize(
        ("limit", "words"),
        [
            (None, " at its limit (what waits is not known), R"),
            (9.876, " of 9.88 records/s (what waits is not known), R"),
            (2.5e6, " of 2,500,000 rec"),
        ],
    )
    def test_what_is_said_of_the_limit(self, limit: float | None, words: str) -> None:
        assert words in decided(throttled_limit=limit).reason

    def test_by_a_high_r_it_goes_up_as_ever(self) -> None:
        decision = decided(ratio=2.6)
        assert decision == ScaleTo(
            7,
            "4 registered -> 7: R 2.60 of query 'q' is at or above 0.9, and its input stands at "
            "its limit",
        )

    def test_what_was_asked_for_before_the_limit_held_is_not_called_off(self) -> None:
        for ratio in (0.2, 0.88, 0.95):
            decision = decided(ratio=ratio, requested=9)
            assert isinstance(decision, Hold) and not decision.pinned
        assert "9 are requested already, 4 registered so far" in decided(requested=9).reason
        assert decided(ratio=0.95, requested=9, throttled=None).target == 5

    def test_at_the_maximum_it_is_pinned(self) -> None:
        decision = decided(registered=10)
        assert decision.pinned
        assert decision.reason.endswith("R 0.88, but 10 executors are the maximum")

    def test_nor_does_it_go_further_than_shards_keep_busy(self) -> None:
        bounds = BOUNDS.for_shards(
            4, tasks_per_shard=1.0, executor_cores=1, cores_per_task=1, receivers=0
        )
        decision = decided(bounds=bounds)
        assert decision.pinned and "4 shards" in decision.reason

    def test_idle_executors_let_the_limit_grow_first(self) -> None:
        decision = decided(ratio=0.3)
        assert decision == Hold(
            "input of query 'q' stands at its limit of 1,200 records/s (what waits is not known), "
            "R 0.30, but R is at or "
            f"below 0.3: {GROWING}"
        )

    def test_it_is_the_r_of_that_query_that_counts(self) -> None:
        loads = (Load("busy", 0.8), Load("q", 0.2))
        decision = decided(ratio=0.8, query="busy", loads=loads)
        assert isinstance(decision, Hold) and "R 0.20, but" in decision.reason
        loads = (Load("busy", 0.8), Load("q", 0.5))
        assert decided(ratio=0.8, query="busy", loads=loads).target == 5

    def test_an_overdue_batch_that_no_executor_works_on_is_not_helped(self) -> None:
        decision = decided(overdue=1.2, active_tasks=0)
        assert isinstance(decision, Hold) and "no executor has a task" in decision.reason
        assert decided(overdue=1.2, active_tasks=3).target == 5
        assert decided(ratio=0.1, overdue=1.2, active_tasks=3).target == 5

    def test_nor_one_that_the_driver_plans_all_the_time(self) -> None:
        decision = decided(ratio=1.0, loads=(Load("q", 1.0, planning=0.95),))
        assert isinstance(decision, Hold) and "planning" in decision.reason

    def test_without_r_it_is_not_known(self) -> None:
        decision = decided(ratio=None, silence="nothing seen")
        assert decision == Hold("R is unknown: nothing seen")

    def test_a_driver_is_not_judged_by_its_first_window(self) -> None:
        assert isinstance(decided(uptime=59.0), Hold)
        assert decided(uptime=60.0).target == 5


class TestALimitThatNoExecutorMoves:
    @pytest.mark.parametrize("by", FIXED)
    @pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.88])
    def test_it_is_told_to_be_raised(self, by: str, ratio: float) -> None:
        assert decided(throttled_by=by, ratio=ratio) == Hold(
            "input of query 'q' stands at its limit of 1,200 records/s (what waits is not known), "
            f"R {ratio:.2f}, but more "
            f"executors would not read more; {FIXED[by]}"
        )

    @pytest.mark.parametrize("by", FIXED)
    def test_batches_that_do_not_fit_get_executors_all_the_same(self, by: str) -> None:
        assert decided(throttled_by=by, ratio=0.9).target == 5
        assert decided(throttled_by=by, ratio=2.0).target == 6
        assert decided(throttled_by=by, ratio=0.5, overdue=1.2, active_tasks=1).target == 5

    def test_at_the_maximum_it_is_not_the_maximum_that_holds_it(self) -> None:
        assert not decided(throttled_by="set", registered=10).pinned

    def test_what_is_on_its_way_is_said(self) -> None:
        assert decided(throttled_by="set", requested=9).reason.endswith(
            "raise it; 4 of 9 have registered"
        )


class TestHowFarBehindItMayBe:
    LATE = RatioPolicy(max_lag=300)

    def test_within_that_nothing_is_done(self) -> None:
        for ratio in (0.1, 0.88, 0.99):
            decision = decided(self.LATE, lag=3.0, lag_query="q", throttled_lag=3.0, ratio=ratio)
            assert decision == Hold(
                f"input of query 'q' stands at its limit of 1,200 records/s, R {ratio:.2f}, but it "
                "is 3.0 s behind, and may be 300 s"
            )

    def test_batches_that_do_not_fit_into_their_interval_get_executors_all_the_same(self) -> None:
        short = {"lag": 3.0, "lag_query": "q", "throttled_lag": 3.0}
        assert decided(self.LATE, **short, ratio=1.0).target == 5
        assert decided(self.LATE, **short, ratio=0.95, throttled=None).target == 5
        loads = (Load("q", 0.99), Load("other", 0.95))
        decision = decided(self.LATE, **short, ratio=0.99, loads=loads)
        assert decision.reason == "4 registered -> 5: R 0.95 of query 'other' is at or above 0.9"

    def test_at_most_that_is_within_it(self) -> None:
        far = {"lag": 300.0, "lag_query": "q", "throttled_lag": 300.0}
        assert isinstance(decided(self.LATE, **far, ratio=0.95), Hold)
        far = {"lag": 300.1, "lag_query": "q", "throttled_lag": 300.1}
        further = decided(self.LATE, **far, ratio=0.95)
        assert further.target == 5 and further.reason.startswith(
            "4 registered -> 5: R 0.95 of query 'q' is at or"
        )

    def test_without_r_a_stuck_batch_counts_as_at_the_threshold(self) -> None:
        policy = RatioPolicy(max_lag=300, scale_up_ratio=2.0)
        late = {"lag": 900.0, "lag_query": "q", "throttled_lag": 900.0}
        stuck = {"ratio": None, "overdue": 1.5, "stalled": 1.5, "silence": "nothing seen"}
        assert decided(policy, **late, **stuck).target == 6

    def test_a_lag_that_is_not_known_is_not_short(self) -> None:
        assert decided(self.LATE).target == 5
        # It is that of another query.
        assert decided(self.LATE, lag=3.0, lag_query="other").target == 5

    def test_a_lag_alone_does_not_say_how_long_it_may_be(self) -> None:
        assert decided(lag=3.0, lag_query="q", throttled_lag=3.0).target == 5

    @pytest.mark.parametrize("by", [None, "estimator"])
    def test_further_behind_it_goes_up(self, by: str | None) -> None:
        late = {"lag": 900.0, "lag_query": "q", "throttled_lag": 900.0, "throttled_by": by}
        decision = decided(self.LATE, **late)
        assert decision == ScaleTo(
            5, "4 registered -> 5: lag 900.0 s of query 'q' is above 300 s, R 0.88 of query 'q'"
        )

    @pytest.mark.parametrize("by", FIXED)
    @pytest.mark.parametrize("ratio", [0.2, 0.5, 0.78, 0.95])
    def test_further_behind_at_a_limit_that_none_moves_it_holds(
        self, by: str, ratio: float
    ) -> None:
        """One executor a minute would be added, up to the maximum, and not a record more read."""
        late = {"lag": 900.0, "lag_query": "q", "throttled_lag": 900.0, "throttled_by": by}
        policy = RatioPolicy(max_lag=300, scale_up_ratio=2.0)
        decision = decided(policy, **late, ratio=ratio, catching_up=-0.5)
        assert isinstance(decision, Hold)
        assert decision.reason == (
            "lag 900.0 s of query 'q' is above 300 s, but input of query 'q' stands at its limit "
            f"of 1,200 records/s, R {ratio:.2f}, and more executors would not read more; "
            f"{FIXED[by]}"
        )

    def test_not_where_a_batch_is_overdue_or_another_query_is_the_late_one(self) -> None:
        late = {"lag": 900.0, "lag_query": "q", "throttled_lag": 900.0, "throttled_by": "source"}
        assert decided(self.LATE, **late, overdue=1.5).target == 5
        assert decided(self.LATE, **late | {"lag_query": "other"}).target == 5

    def test_it_says_who_has_set_the_limit(self) -> None:
        late = {"lag": 900.0, "lag_query": "q", "throttled_by": "tuned", "throttled_who": "by me"}
        decision = decided(self.LATE, **late)
        assert decision.reason.endswith(
            "; the limit was tuned: set another by sparkscale retune --set, or put it back (by me)"
        )

    @pytest.mark.parametrize("by", ["estimator", None])
    def test_batches_that_wait_for_their_interval_are_told_what_bounds_them(
        self, by: str | None
    ) -> None:
        late = {"lag": 900.0, "lag_query": "q", "lag_paced": True, "ratio": 0.2}
        decision = decided(self.LATE, **late, throttled_by=by)
        assert isinstance(decision, Hold) and decision.reason.endswith(f"longer; {GROWING}")
        other = decided(self.LATE, **late | {"lag_query": "other"}, throttled_by=by)
        assert other.reason.endswith("is bounded by what its source may read: raise that")

    def test_a_backlog_that_is_nearly_gone_is_waited_for(self) -> None:
        late = {"lag": 310.0, "lag_query": "q", "throttled_lag": 310.0}
        assert isinstance(decided(self.LATE, **late, catching_up=0.5), Hold)
        assert decided(self.LATE, **late, catching_up=-0.5).target > 4


class TestHowMuchMoreThereIs:
    """The lag grows by `1 - taken / arriving` seconds a second."""

    @pytest.mark.parametrize(
        ("catching_up", "target"),
        [
            (None, 5),
            (0.5, 5),  # a backlog that is drained says nothing of what arrives
            (0.0, 5),
            (-0.4, 5),  # R would be 1.47
            (-0.5, 6),  # 1.76
            (-0.75, 8),  # 3.52
            (-0.99, 8),  # at most four times
            (-3.0, 8),
        ],
    )
    @pytest.mark.parametrize("policy", [RatioPolicy(), RatioPolicy(max_lag=300)])
    def test_it_goes_up_as_by_the_r_that_there_would_be(
        self, policy: RatioPolicy, catching_up: float | None, target: int
    ) -> None:
        late = {"lag": 900.0, "lag_query": "q", "throttled_lag": 900.0}
        assert decided(policy, **late, catching_up=catching_up).target == target

    def test_so_it_is_at_a_high_r(self) -> None:
        late = {"lag": 900.0, "lag_query": "q"}
        assert decided(ratio=1.2, **late, catching_up=-0.5).target == 6
        assert decided(ratio=1.3, **late, catching_up=-0.5).target == 7
        assert decided(ratio=2.0, **late, catching_up=0.5).target == 6

    def test_never_less_than_by_the_threshold(self) -> None:
        policy = RatioPolicy(scale_up_ratio=3.0)
        assert decided(policy, lag=9.0, lag_query="q", catching_up=-0.2).target == 7

    def test_the_lag_of_another_query_says_nothing(self) -> None:
        assert decided(lag=900.0, lag_query="other", catching_up=-0.75).target == 5
        loads = (Load("other", 1.0), Load("q", 0.5))
        late = {"lag": 900.0, "lag_query": "q", "catching_up": -0.75}
        assert decided(ratio=1.0, query="other", loads=loads, **late).target == 5

    def test_nor_does_it_where_no_executor_moves_the_limit(self) -> None:
        late = {"lag": 900.0, "lag_query": "q", "catching_up": -0.75, "throttled_by": "set"}
        assert decided(ratio=1.0, **late).target == 5
        assert decided(RatioPolicy(max_lag=300), ratio=1.0, **late).target == 5


limited = st.builds(
    lambda seen, by, lag, catching_up, tells: replace(
        seen,
        throttled="q",
        throttled_by=by,
        lag=lag,
        lag_query="q",
        throttled_lag=lag if tells else None,
        catching_up=catching_up,
    ),
    anything,
    st.sampled_from([None, "estimator", "start", "nobody", *FIXED]),
    st.none() | st.floats(0, 1e6),
    st.none() | st.floats(-5, 5),
    st.booleans(),
)
lags = st.none() | st.floats(1, 1e5)


def with_lag(policy: RatioPolicy, max_lag: float | None) -> RatioPolicy:
    up, down = policy.scale_up_ratio, policy.scale_down_ratio
    return RatioPolicy(scale_up_ratio=up, scale_down_ratio=down, max_lag=max_lag)


class TestProperties:
    @given(policies, lags, any_bounds, limited)
    def test_nothing_is_taken_from_a_query_at_its_limit(
        self, policy: RatioPolicy, max_lag: float | None, bounds: Bounds, seen: Evaluation
    ) -> None:
        requested = bounds.clamp(seen.requested or 1)
        decision = with_lag(policy, max_lag).decide(bounds, replace(seen, requested=requested))
        if isinstance(decision, ScaleTo):
            assert decision.target > requested
            assert bounds.clamp(decision.target) == decision.target

    @given(policies, lags, any_bounds, limited)
    def test_a_query_at_its_limit_never_has_less_than_one_that_is_not(
        self, policy: RatioPolicy, max_lag: float | None, bounds: Bounds, seen: Evaluation
    ) -> None:
        requested = seen.requested or 1
        seen = replace(seen, requested=requested)
        if max_lag is not None:
            seen = replace(seen, throttled_lag=None)  # else what waits may wait
        if seen.throttled_by == "set":
            seen = replace(seen, lag=None)  # no executor makes up for that
        free = replace(seen, throttled=None)
        policy = with_lag(policy, max_lag)
        after = target(policy.decide(bounds, seen), requested)
        assert after >= target(policy.decide(bounds, free), requested)

    @given(policies, any_bounds, limited, ratios)
    def test_a_limit_that_no_executor_moves_is_never_a_reason_for_more(
        self, policy: RatioPolicy, bounds: Bounds, seen: Evaluation, ratio: float
    ) -> None:
        seen = replace(seen, ratio=ratio, throttled_by="set", overdue=None, stalled=None)
        seen = replace(seen, requested=bounds.clamp(seen.requested or 1))
        more = isinstance(policy.decide(bounds, seen), ScaleTo)
        assert not more or ratio >= policy.scale_up_ratio
