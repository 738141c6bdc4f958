"""What a decision and an evaluation say of themselves, to the word where it tells a number."""

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.status import Query
from tests.autoscale.deciding import decided
from tests.fakes import QUERY, batch, status

LOW = "R 0.10 is at or below 0.3"


def seen(**fields):
    return evaluate(status(**fields), window=60.0, batch_interval=10.0)


def few_shards(useful):
    return Bounds(1, 10, 1, useful=useful, useful_note=f"{useful} are enough")


def test_one_executor_less_needs_no_explanation_beside_the_ratio():
    for bounds in (Bounds(1, 10, 1), few_shards(3), few_shards(8)):
        assert decided(bounds, registered=4, ratio=0.1) == ScaleTo(3, f"4 registered -> 3: {LOW}")


def test_several_executors_less_are_explained_by_the_shards():
    assert decided(few_shards(2), registered=4, ratio=0.1) == ScaleTo(
        2, f"4 registered -> 2 (2 are enough): {LOW}"
    )


def test_bounds_without_a_maximum_are_told_as_such():
    assert decided(Bounds(2, None, 2), registered=1, ratio=0.5) == ScaleTo(
        2, "1 requested is outside the bounds 2 to any"
    )


def test_a_late_stream_is_not_asked_twice_for_what_is_on_its_way():
    policy = RatioPolicy(max_lag=300)
    decision = decided(policy=policy, registered=4, requested=5, ratio=0.5, lag=900.0)
    assert decision == Hold(
        "lag 900.0 s is above 300 s, R 0.50; 5 are requested already, 4 registered so far"
    )


def test_a_lag_that_falls_slowly_but_has_not_far_to_go_is_left_alone():
    decision = decided(policy=RatioPolicy(max_lag=300), ratio=0.5, lag=310.0, catching_up=0.5)
    assert isinstance(decision, Hold)
    assert decision.reason.endswith("will be below that in 20 s")


def test_batches_that_wait_at_the_very_threshold_are_not_helped_by_more_executors():
    waiting = {"lag": 900.0, "lag_paced": True}
    assert isinstance(decided(policy=RatioPolicy(max_lag=300), ratio=0.3, **waiting), Hold)


def test_the_uptime_is_counted_from_the_start_of_the_driver():
    assert seen(now=2000.0, started_at=1950.0).uptime == 50.0


def test_a_query_just_behind_the_tip_is_further_behind_than_one_at_it():
    queries = (Query("at", True, behind_ms=0), Query("behind", True, behind_ms=1))
    assert seen(queries=queries).lag_query == "behind"


def test_failed_batches_of_a_query_that_has_ended_are_not_held_against_the_one_that_runs():
    queries = (Query(QUERY, active=True), Query("ended", active=False))
    failed = (batch(1, query="ended", failed=True),)
    assert seen(queries=queries, batches=failed).silence == "no batch completed in the last 60 s"
