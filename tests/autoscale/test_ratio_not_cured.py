"""What more executors cannot cure, and triggers that have no pace to keep."""

from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.status import Executor, Query
from tests.autoscale.deciding import BOUNDS, POLICY
from tests.fakes import QUERY, batch, status


def judged(batches=(), policy=POLICY, declared=10.0, **fields):
    """The decision on what an agent answered."""
    report = status(registered=2, requested=2, batches=batches, **fields)
    return policy.decide(BOUNDS, evaluate(report, window=60.0, batch_interval=declared))


class TestWhatExecutorsCannotCure:
    """Time that the driver spends by itself, and batches that wait for something else."""

    def test_time_spent_on_planning_is_not_answered_by_executors(self):
        decision = judged((batch(12, planning_ms=9_000),))
        assert decision == Hold(
            "R 1.20 of query 'counts' is at or above 0.9, but 0.90 of that R is the driver's "
            "time for finding offsets, planning and the query's logs, and more executors would not "
            "take that over"
        )

    @pytest.mark.parametrize("planning_ms", [None, 0, 8_999])
    def test_planning_that_leaves_executors_something_to_cure_is(self, planning_ms):
        assert judged((batch(12, planning_ms=planning_ms),)).target == 3

    def test_planning_is_not_known_as_soon_as_one_batch_does_not_tell(self):
        assert judged((batch(12, planning_ms=11_000), batch(12, planning_ms=None))).target == 3

    def test_triggers_without_data_take_no_planning(self):
        idle = batch(0, records=0, triggers=1, planning_ms=None)
        assert isinstance(judged((batch(30, planning_ms=29_000), idle)), Hold)

    def test_another_query_that_executors_can_help_is_helped(self):
        queries = (Query("planned", active=True), Query("worked", active=True))
        batches = (
            batch(20, query="planned", planning_ms=19_000),
            batch(15, query="worked", planning_ms=100),
        )
        decision = judged(batches, queries=queries)
        assert decision == ScaleTo(
            4, "2 registered -> 4: R 1.50 of query 'worked' is at or above 0.9"
        )

    def stuck(self, *tasks, **fields):
        executors = tuple(
            Executor(str(n), "host", 1, active_tasks=active, receivers=receivers)
            for n, (active, receivers) in enumerate(tasks)
        )
        queries = (Query(QUERY, active=True, running_ms=70_000),)
        return judged(queries=queries, executors=executors, **fields)

    def test_a_batch_that_no_executor_has_a_task_of_is_awaited(self):
        assert self.stuck((0, 0), (0, 0)) == Hold(
            "no batch completed in 60 s and the one in progress has taken 70 s (7.0 batch "
            "intervals) so far, but no executor has a task: it is the driver, or the source, that "
            "takes so long, and more executors would be idle too"
        )

    @pytest.mark.parametrize("tasks", [[(1, 0), (0, 0)], [(0, 0)], []])
    def test_one_that_they_work_on_or_may_work_on_is_overload(self, tasks):
        assert self.stuck(*tasks).target == 8

    def test_receivers_are_no_work_on_a_batch(self):
        assert isinstance(self.stuck((1, 1), (0, 0)), Hold)
        assert self.stuck((2, 1), (0, 0)).target == 8

    def test_another_query_that_is_overloaded_is_helped_all_the_same(self):
        queries = (Query("stuck", active=True, running_ms=70_000), Query("slow", active=True))
        executors = (Executor("1", "host", 1), Executor("2", "host", 1))
        decision = judged((batch(20, query="slow"),), queries=queries, executors=executors)
        assert decision.target == 4

    def test_nor_does_a_long_lag_ask_for_executors_that_would_be_idle(self):
        policy = RatioPolicy(max_lag=60, scale_up_ratio=9.0)
        query = Query(QUERY, active=True, running_ms=70_000, behind_ms=900_000)
        idle = (Executor("1", "host", 1), Executor("2", "host", 1))
        assert "would be idle too" in judged(policy=policy, queries=(query,), executors=idle).reason
        busy = (replace(idle[0], active_tasks=1), idle[1])
        assert judged(policy=policy, queries=(query,), executors=busy).target == 10


class TestTriggersWithoutPace:
    """Batches of a real-time trigger last as long as they are told to; continuous ones are none."""

    LONG = (batch(300, query="live"),)

    @pytest.mark.parametrize("trigger", ["real time", "continuous"])
    def test_r_means_nothing_and_the_reason_says_what_does(self, trigger):
        live = Query("live", active=True, running_ms=200_000, trigger=trigger)
        decision = judged(self.LONG, queries=(live,))
        assert decision == Hold(
            f"R is unknown: it means nothing for query 'live', which has a {trigger} trigger: its "
            "batches take as long as they are told to; where its source tells how far behind it "
            "is, max_lag can scale it up"
        )

    @pytest.mark.parametrize("trigger", [None, "processing time", "available now", "once", "new"])
    def test_for_every_other_it_does(self, trigger):
        live = Query("live", active=True, trigger=trigger)
        assert judged(self.LONG, queries=(live,)).target == 10

    def test_max_lag_scales_it_up(self):
        policy = RatioPolicy(max_lag="1 min")
        late = Query("live", active=True, running_ms=200_000, trigger="real time", behind_ms=90_000)
        decision = judged(self.LONG, policy, queries=(late,))
        assert decision == ScaleTo(
            3, "2 registered -> 3: lag 90.0 s of query 'live' is above 60 s, R is unknown"
        )
        at_the_tip = replace(late, behind_ms=1_000)
        assert isinstance(judged(self.LONG, policy, queries=(at_the_tip,)), Hold)

    def test_a_low_r_of_another_query_takes_no_executor_from_it(self):
        queries = (Query("live", active=True, trigger="real time"), Query("idle", active=True))
        decision = judged((*self.LONG, batch(1, query="idle")), queries=queries)
        assert decision == Hold(
            "R 0.10 of query 'idle' is at or below 0.3, but R says nothing of query 'live', whose "
            "batches take as long as they are told to"
        )
        waiting = judged((*self.LONG, batch(3, query="idle")), queries=queries)
        assert "R says nothing of query 'live'" in waiting.reason
        slow = judged((*self.LONG, batch(9, query="idle")), queries=queries)
        assert slow.target == 3
