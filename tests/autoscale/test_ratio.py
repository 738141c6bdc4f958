from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation, Load
from dagster_sparkscale.observe.status import Query
from tests.autoscale.deciding import BOUNDS, POLICY, decided, target
from tests.fakes import QUERY, batch, status, structured


class TestCasesOfSpark12133:
    """The design's cases: a batch time of 60 s, up at 0.9, down at 0.3."""

    @pytest.mark.parametrize(
        ("processing_seconds", "executors"),
        [(2, 3), (10, 3), (20, 4), (30, 4), (45, 4), (60, 5), (80, 5)],
    )
    def test_a_batch_time_of_60_s(self, processing_seconds, executors):
        report = status(registered=4, requested=4, batches=(batch(processing_seconds),))
        evaluation = evaluate(report, window=60.0, batch_interval=60.0)
        decision = RatioPolicy(max_executors=10).decide(BOUNDS, evaluation)
        assert target(decision, 4) == executors
        assert isinstance(decision, Hold) == (executors == 4)

    @pytest.mark.parametrize(
        ("ratio", "executors"),
        [(0.3, 3), (0.31, 4), (0.49, 4), (0.5, 4), (0.89, 4), (0.9, 5), (1.49, 5), (1.5, 6)],
    )
    def test_thresholds_are_inclusive_as_in_sparks_code(self, ratio, executors):
        assert target(decided(ratio=ratio), 4) == executors

    def test_the_designs_own_preset_removes_up_to_a_half(self):
        assert decided(policy=RatioPolicy.spark_12133(), ratio=0.5).target == 3
        assert isinstance(decided(policy=RatioPolicy.spark_12133(), ratio=0.51), Hold)

    def test_the_ceiling_is_what_the_cores_admit_whatever_the_maximum_says(self):
        stream = structured(
            executor_cores=2,
            spark_conf={"spark.cores.max": 10},
            autoscale=RatioPolicy(max_executors=50),
        )
        report = status(registered=4, requested=4, batches=(batch(60),))
        evaluation = evaluate(report, window=60.0, batch_interval=10.0)
        assert stream.autoscale.decide(stream.bounds, evaluation).target == 5
        full = replace(evaluation, registered=5, requested=5)
        held = stream.autoscale.decide(stream.bounds, full)
        assert held.pinned
        assert "spark.cores.max 10 / executor_cores 2" in held.reason


class TestRest:
    """Under a load that stays as it is, no executor is added and removed for ever."""

    def test_none_is_removed_that_would_be_added_again(self):
        policy = RatioPolicy.spark_12133()
        decision = decided(policy=policy, registered=2, ratio=0.46)
        assert decision == Hold(
            "R 0.46 is at or below 0.5, but it would be about 0.92 on 1, which is at or above 0.9: "
            "one would be removed and added in turn"
        )
        assert decided(policy=policy, registered=2, ratio=0.44).target == 1
        assert decided(policy=policy, registered=3, ratio=0.5).target == 2

    def test_what_is_outstanding_is_called_off_all_the_same(self):
        decision = decided(policy=RatioPolicy.spark_12133(), registered=2, requested=4, ratio=0.46)
        assert decision.target == 2

    def test_what_the_driver_does_itself_does_not_rise(self):
        """On one executor it would be 0.3 + 2 * 0.18."""
        policy = RatioPolicy.spark_12133()
        loads = (Load("q", 0.48, 0.3),)
        assert decided(policy=policy, registered=2, ratio=0.48, query="q", loads=loads).target == 1

    def test_those_that_shards_keep_idle_are_removed(self):
        bounds = replace(BOUNDS, useful=1, useful_note="1 shard")
        policy = RatioPolicy.spark_12133()
        assert decided(bounds, policy=policy, registered=2, ratio=0.48).target == 1

    def test_batches_share_the_cores_that_receivers_leave(self):
        """Two receivers on executors of two cores: four cores for batches on three, two on two."""
        stream = DStream(
            name="orders",
            program="orders.py",
            batch_interval="5s",
            receivers=2,
            executor_cores=2,
            autoscale=RatioPolicy.spark_12133(min_executors=2, max_executors=4),
        )
        decision = decided(stream.bounds, stream.autoscale, registered=3, ratio=0.46)
        assert "it would be about 0.92 on 2, which is at or above 0.9" in decision.reason
        assert decided(stream.bounds, stream.autoscale, registered=3, ratio=0.44).target == 2

    @given(
        work=st.floats(0, 60),
        start=st.integers(1, 80),
        up=st.floats(0.05, 3),
        share=st.floats(0.01, 0.99),
    )
    @example(work=0.95, start=1, up=0.9, share=0.5 / 0.9)
    def test_a_constant_load_comes_to_rest(self, work, start, up, share):
        policy = RatioPolicy(scale_up_ratio=up, scale_down_ratio=up * share)
        bounds, executors = Bounds(1, 100, 1), start
        for _ in range(200):
            decision = decided(bounds, policy, registered=executors, ratio=work / executors)
            executors = target(decision, executors)
            if isinstance(decision, Hold):
                return
        raise AssertionError(f"still moving at {executors} executors")


class TestMendedDefects:
    def test_an_overdue_batch_without_a_completed_one_is_overload(self):
        report = status(queries=(Query(QUERY, active=True, running_ms=35_000),))
        evaluation = evaluate(report, window=60.0, batch_interval=10.0)
        decision = POLICY.decide(BOUNDS, evaluation)
        assert decision == ScaleTo(
            6,
            "2 registered -> 6: no batch completed in 60 s and the one in progress has taken 35 s "
            "(3.5 batch intervals) so far",
        )

    @pytest.mark.parametrize(("age", "executors"), [(1.5, 4), (1.99, 4), (2.0, 6), (2.5, 7)])
    def test_a_batch_that_is_overdue_is_awaited_until_it_is_so_by_the_threshold(
        self, age, executors
    ):
        policy = RatioPolicy(scale_up_ratio=2.0)
        decision = decided(policy=policy, overdue=age, stalled=age)
        assert isinstance(decision, Hold) == (executors == 4)
        assert target(decision, 4) == executors

    def test_a_query_that_is_stuck_decides_though_another_one_is_idle(self):
        queries = (Query("idle", active=True), Query("stuck", active=True, running_ms=50_000))
        report = status(queries=queries, batches=(batch(0.1, query="idle"),))
        evaluation = evaluate(report, window=60.0, batch_interval=10.0)
        decision = POLICY.decide(BOUNDS, evaluation)
        assert target(decision, 2) == 7
        assert "of a query beside 'idle'" in decision.reason

    def test_the_worse_of_a_stuck_and_a_slow_query_decides(self):
        assert decided(ratio=4.0, query="a", overdue=2.0, stalled=2.0).target == 8
        assert decided(ratio=2.0, query="a", overdue=4.0, stalled=4.0).target == 8

    def test_of_a_slow_and_a_stuck_query_that_are_equally_bad_the_measured_one_is_named(self):
        decision = decided(ratio=3.0, query="a", overdue=3.0, stalled=3.0)
        assert decision == ScaleTo(7, "4 registered -> 7: R 3.00 of query 'a' is at or above 0.9")

    def test_nothing_is_removed_while_a_batch_is_overdue(self):
        decision = decided(ratio=0.1, overdue=1.2)
        assert isinstance(decision, Hold)
        assert "the batch in progress has taken 1.2 batch intervals" in decision.reason

    def test_executors_that_all_died_are_asked_for_again(self):
        # SPARK-42972: without executors no batch completes, and Spark's manager waits for one.
        decision = decided(Bounds(3, 10, 3), registered=0, requested=0)
        assert decision == ScaleTo(3, "0 requested is outside the bounds 3 to 10")

    def test_executors_that_are_still_requested_are_awaited(self):
        decision = decided(registered=0, requested=3, ratio=9.0, overdue=5.0, stalled=5.0)
        assert decision == Hold(
            "no executor is registered; 3 requested, waiting for the cluster manager"
        )

    @pytest.mark.parametrize(
        ("bounds", "requested", "moved_to"),
        [
            (Bounds(5, 10, 5), 4, 5),
            (Bounds(1, 3, 1), 4, 3),
            (Bounds(6, None, 6), 1, 6),
        ],
    )
    @pytest.mark.parametrize("ratio", [None, 0.1, 0.5, 5.0])
    def test_a_number_outside_changed_bounds_is_brought_back(
        self, bounds, requested, moved_to, ratio
    ):
        decision = decided(bounds, registered=4, requested=requested, ratio=ratio)
        assert decision.target == moved_to
        assert f"{requested} requested is outside the bounds" in decision.reason

    def test_requests_that_are_outstanding_do_not_pile_up(self):
        # 4 of 9 came; R says 5: what is asked for is 4 + 1, not 9 + 1.
        assert decided(registered=4, requested=9, ratio=1.0).target == 5

    def test_requests_that_are_outstanding_are_called_off_when_load_falls(self):
        assert decided(registered=4, requested=9, ratio=0.1).target == 3

    def test_they_are_called_off_at_the_minimum_as_well(self):
        decision = decided(registered=1, requested=9, ratio=0.1)
        assert decision.target == 1
        assert "9 requested, of which 1 registered so far" in decision.reason

    def test_an_executor_that_is_still_leaving_is_not_removed_twice(self):
        decision = decided(registered=4, requested=3, ratio=0.1)
        assert isinstance(decision, Hold)
        assert "3 are requested already, 4 are still registered" in decision.reason

    def test_executors_that_are_still_coming_are_not_requested_twice(self):
        decision = decided(registered=4, requested=5, ratio=1.0)
        assert isinstance(decision, Hold)
        assert not decision.pinned
        assert "5 are requested already, 4 registered so far" in decision.reason


class TestLeaving:
    """Executors that were told to leave are registered until they have left."""

    def test_low_load_beside_them_does_not_raise_what_is_requested(self):
        decision = decided(ratio=0.1, registered=8, removing=6, requested=2)
        assert decision == Hold(
            "R 0.10 is at or below 0.3; 2 are requested already, 8 registered so far, of which 6 "
            "leaving"
        )

    def test_nor_beside_more_than_were_asked_for_whoever_sends_them_home(self):
        decision = decided(ratio=0.1, registered=8, requested=2)
        assert decision == Hold(
            "R 0.10 is at or below 0.3; 2 are requested already, 8 are still registered"
        )

    def test_high_load_is_answered_by_those_that_stay(self):
        decision = decided(ratio=1.2, registered=8, removing=6, requested=2)
        assert decision == ScaleTo(
            3, "8 registered, of which 6 leaving -> 3: R 1.20 is at or above 0.9"
        )
        assert decided(stalled=3.0, overdue=3.0, registered=8, removing=6, requested=2).target == 5

    def test_a_stream_is_at_its_maximum_by_those_that_stay(self):
        full = {"ratio": 1.2, "registered": 12, "requested": 10}
        assert decided(**full, removing=2).pinned
        assert decided(ratio=1.2, registered=12, removing=4, requested=8).target == 9

    def test_what_is_outstanding_is_called_off_all_the_same(self):
        decision = decided(ratio=0.1, registered=4, removing=3, requested=5)
        assert decision.target == 1
        assert "5 requested, of which 4 registered so far, of which 3 leaving" in decision.reason

    def test_those_that_all_leave_are_no_capacity(self):
        decision = decided(ratio=5.0, registered=3, removing=3, requested=2)
        assert decision == Hold(
            "every executor that is registered is leaving (3); 2 requested, waiting for the "
            "cluster manager"
        )

    def test_in_between_they_are_told_of(self):
        assert decided(ratio=0.5, registered=4, removing=1, requested=3).reason == (
            "R 0.50 is between 0.3 and 0.9; 3 of 3 have registered, 1 more leaving"
        )

    def test_an_agents_answer_says_how_many(self):
        leaving = evaluate(status(registered=8, removing=6), window=60.0, batch_interval=10.0)
        assert (leaving.registered, leaving.removing, leaving.staying) == (8, 6, 2)
        old = evaluate(status(removing=6, spark_age=99.0), window=60.0, batch_interval=10.0)
        assert (old.registered, old.removing, old.staying) == (None, 0, None)


class TestHolds:
    @pytest.mark.parametrize(("registered", "requested"), [(None, 4), (4, None), (None, None)])
    @pytest.mark.parametrize("ratio", [None, 0.0, 5.0])
    def test_an_unknown_number_of_executors_holds(self, registered, requested, ratio):
        seen = Evaluation(
            window=60.0, ratio=ratio, stalled=9.0, registered=registered, requested=requested
        )
        decision = POLICY.decide(BOUNDS, seen)
        assert isinstance(decision, Hold)
        assert "not known" in decision.reason

    def test_an_unknown_ratio_holds_and_says_why_it_is_unknown(self):
        assert decided().reason == "R is unknown: nothing seen"

    def test_between_the_thresholds_it_holds_and_says_what_is_outstanding(self):
        assert decided(ratio=0.5, query="a").reason == "R 0.50 of query 'a' is between 0.3 and 0.9"
        reason = decided(ratio=0.5, registered=4, requested=6).reason
        assert reason == "R 0.50 is between 0.3 and 0.9; 4 of 6 have registered"

    def test_at_the_minimum_nothing_is_removed(self):
        decision = decided(ratio=0.0, registered=1)
        assert decision == Hold("R 0.00 is at or below 0.3, but 1 is the minimum")

    def test_at_a_minimum_that_was_set_says_who_set_it(self):
        bounds = Bounds(2, 8, 2, minimum_note="set by ann", note="most by ann")
        policy = RatioPolicy()
        low = Evaluation(window=60.0, ratio=0.0, registered=2, requested=2)
        said = policy.decide(bounds, low).reason
        assert said == "R 0.00 is at or below 0.3, but 2 is the minimum: set by ann"
        below = policy.decide(bounds, replace(low, registered=1, requested=1)).reason
        assert below == "1 requested is outside the bounds 2 to 8: set by ann"
        above = policy.decide(bounds, replace(low, registered=9, requested=9)).reason
        assert above == "9 requested is outside the bounds 2 to 8: most by ann"

    @pytest.mark.parametrize(("registered", "requested"), [(10, 10), (12, 10)])
    def test_at_the_maximum_a_stream_is_pinned(self, registered, requested):
        decision = decided(ratio=1.2, registered=registered, requested=requested)
        assert decision.pinned
        assert decision.reason == "R 1.20 is at or above 0.9, but 10 executors are the maximum"

    def test_a_cluster_that_gives_no_more_is_not_a_policy_at_its_maximum(self):
        decision = decided(ratio=1.2, registered=9, requested=10)
        assert isinstance(decision, Hold)
        assert not decision.pinned


class TestNotYetAWholeWindow:
    """Spark evaluates for the first time one interval after the start."""

    def test_a_driver_that_has_not_run_for_a_window_is_held_whatever_its_first_batch_took(self):
        for load in ({"ratio": 9.0}, {"ratio": 0.0}, {"overdue": 9.0, "stalled": 9.0}):
            young = decided(uptime=59.0, **load)
            assert isinstance(young, Hold) and "59 s ago" in young.reason
            assert isinstance(decided(uptime=60.0, registered=2, **load), ScaleTo)

    def test_its_bounds_and_its_lost_executors_are_seen_to_all_the_same(self):
        assert isinstance(decided(uptime=1.0, registered=0, requested=0, ratio=None), ScaleTo)


def test_a_batch_that_hangs_asks_for_no_more_in_a_minute_than_fits_into_that_minute():
    hung = {"overdue": 360.0, "stalled": 360.0, "batch_interval": 10.0, "uptime": 9999.0}
    roomy = RatioPolicy(max_executors=1000)
    assert decided(policy=roomy, registered=2, requested=2, **hung).target == 8
    slow = {**hung, "batch_interval": 600.0}
    assert decided(policy=roomy, registered=2, requested=2, **slow).target == 3
