"""The first batch of a query in a new driver: no overload by itself, no hiding place of one."""

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluate import WARM_UP, evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Query
from tests.autoscale.deciding import BOUNDS
from tests.fakes import QUERY, batch, status

INTERVAL = 10.0
POLICY = RatioPolicy()


def seen(*queries: Query, **fields) -> Evaluation:
    report = status(started_at=1930.0, queries=queries or (Query(QUERY, active=True),), **fields)
    return evaluate(report, window=60.0, batch_interval=INTERVAL)


def first(running: float | None, name: str = QUERY) -> Query:
    """A query whose first batch has gone on for so long; None: there was no data yet."""
    running_ms = None if running is None else round(running * 1000)
    return Query(name, active=True, running_ms=running_ms, cold=True)


def warm(running: float, name: str = QUERY) -> Query:
    return Query(name, active=True, running_ms=round(running * 1000))


class TestItsTimeIsLeftOut:
    def test_alone_it_makes_no_ratio_and_no_decision(self):
        evaluation = seen(batches=(batch(12, cold=True),))
        assert (evaluation.ratio, evaluation.warming) == (None, QUERY)
        decision = POLICY.decide(BOUNDS, evaluation)
        assert decision == Hold(
            f"R is unknown: only the first batch of query {QUERY!r} since the driver started has "
            "completed, and that one takes longer than others, as code is loaded and compiled in it"
        )

    def test_the_second_one_decides(self):
        cold = batch(25, ago=30, cold=True)
        calm = seen(batches=(cold, batch(5)))
        assert (calm.ratio, calm.processing_ms, calm.warming) == (0.5, 5000, None)
        assert isinstance(POLICY.decide(BOUNDS, calm), Hold)
        busy = seen(batches=(cold, batch(15)))
        assert POLICY.decide(BOUNDS, busy).target == 4

    def test_it_has_completed_and_has_processed_records_all_the_same(self):
        evaluation = seen(batches=(batch(12, cold=True, records=600),))
        assert (evaluation.completed, evaluation.input_rate) == (1, 10.0)
        assert evaluation.processed_rate == 50.0

    def test_triggers_without_data_before_it_count(self):
        idle = batch(0, ago=30, triggers=3, records=0)
        evaluation = seen(batches=(idle, batch(12, cold=True)))
        assert (evaluation.ratio, evaluation.warming) == (0.0, None)

    def test_it_only_counts_as_the_first_while_it_is_looked_at(self):
        evaluation = seen(batches=(batch(12, ago=70, cold=True),))
        assert evaluation.warming is None
        assert evaluation.silence == "no batch completed in the last 60 s"


class TestItsTimeInProgress:
    @pytest.mark.parametrize("seconds", [1.0, 10.2, INTERVAL + WARM_UP])
    def test_it_may_go_on_for_a_while_beyond_its_interval(self, seconds):
        evaluation = seen(first(seconds))
        assert (evaluation.stalled, evaluation.warming) == (None, QUERY)
        decision = POLICY.decide(BOUNDS, evaluation)
        assert isinstance(decision, Hold)
        assert "since the driver started is in progress" in decision.reason

    def test_then_it_is_overload(self):
        evaluation = seen(first(INTERVAL + WARM_UP + 0.001))
        assert (evaluation.stalled, evaluation.warming) == (4.0001, None)
        assert POLICY.decide(BOUNDS, evaluation).target == 6

    def test_any_other_is_not_the_first(self):
        assert seen(warm(1)).warming is None

    def test_any_other_is_overload_as_soon_as_it_is_overdue(self):
        assert POLICY.decide(BOUNDS, seen(warm(10.2))).target == 3

    def test_also_the_second_one_right_after_a_first_that_took_long(self):
        evaluation = seen(warm(12), batches=(batch(35, cold=True),))
        assert evaluation.stalled == 1.2
        assert POLICY.decide(BOUNDS, evaluation).target == 3

    def test_a_driver_that_does_not_tell_is_judged_as_before(self):
        # Of an older release: all its batches count.
        assert POLICY.decide(BOUNDS, seen(batches=(batch(12),))).target == 3

    def test_waiting_for_data_is_no_warming_up(self):
        evaluation = seen(first(None), batches=(batch(0, triggers=6, records=0),))
        assert (evaluation.ratio, evaluation.warming) == (0.0, None)

    def test_a_stream_that_is_far_behind_is_held_for_it_too(self):
        late = Query(QUERY, True, running_ms=15_000, behind_ms=900_000, cold=True)
        decision = RatioPolicy(max_lag=60).decide(BOUNDS, seen(late))
        assert isinstance(decision, Hold)
        assert decision.reason.endswith(f"lag 900.0 s of query {QUERY!r} is above 60 s")


class TestBesideOtherQueries:
    def test_one_that_is_overloaded_is_not_held_for_it(self):
        evaluation = seen(first(12, "new"), warm(1, "old"), batches=(batch(14, query="old"),))
        assert isinstance(POLICY.decide(BOUNDS, evaluation), ScaleTo)

    @pytest.mark.parametrize(
        ("new", "done"),
        [(first(9, "new"), ()), (warm(1, "new"), (batch(9, query="new", cold=True),))],
        ids=["in progress", "done"],
    )
    def test_no_executor_is_taken_from_it(self, new, done):
        evaluation = seen(new, warm(1, "old"), batches=(batch(3, query="old"), *done))
        assert evaluation.ratio == 0.3
        assert POLICY.decide(BOUNDS, evaluation) == Hold(
            "R 0.30 of query 'old' is at or below 0.3, but of query 'new' only its first batch is "
            "known yet"
        )


def test_a_stream_that_is_overloaded_from_the_start_is_scaled_up_once_it_can_be_told():
    """Looked at every 20 s by a policy of that interval: batches of 25 s in an interval of 10."""
    policy, decisions = RatioPolicy(interval=20), {}
    begins, took = 12.0, (45.0, 25.0, 25.0)  # seconds after the start
    for uptime in range(20, 121, 20):
        now, at, done, running = 2000.0, begins, [], None
        for number, seconds in enumerate(took):
            if at + seconds <= uptime:
                ago = uptime - at - seconds
                done.append(batch(seconds, ago=ago, now=now, cold=number == 0))
            elif at < uptime:
                running = first(uptime - at) if number == 0 else warm(uptime - at)
            at += seconds
        report = status(
            now=now, started_at=now - uptime, batches=tuple(done), queries=(running or warm(0),)
        )
        evaluation = evaluate(report, window=20.0, batch_interval=INTERVAL)
        decisions[uptime] = policy.decide(BOUNDS, evaluation)
    assert [uptime for uptime, each in decisions.items() if isinstance(each, Hold)] == [20, 40, 60]
    assert decisions[80].target == 4
