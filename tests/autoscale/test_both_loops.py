"""The autoscaler and an estimator of rates on one simulated stream: they must not fight.

The estimator makes batches fit into their interval, batch by batch. The policy looks once a minute,
at what the agent would say, and other executors come a while after they were asked for.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.driver.backpressure.estimators import Estimate, MeasuredBatch, estimator_of
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Batch, Limit, Query, Spark, Status
from dev.load_simulation import Run, Stream, always, simulate, steps

MINUTE = 60.0
ARRIVE_AFTER = 20.0
"""Seconds until other executors are there."""
INTERVAL, COST, OVERHEAD = 10.0, 0.001, 0.5
ALONE = 850.0
"""Records per second of batches that take 0.9 of their interval on one executor."""


@dataclass
class Minute:
    at: float
    seen: Evaluation
    decision: Hold | ScaleTo


class Autoscaled:
    """An estimator whose batches a policy looks at; and the executors that the policy has asked
    for. It tells how far behind the stream is if it is told what arrives."""

    def __init__(self, estimator: Any, policy: RatioPolicy, arrivals: Any = None) -> None:
        self._inner, self._policy, self._arrivals = estimator, policy, arrivals
        self._taken = 0
        self._reached = [0.0, 0.0]
        """Until when the records that were taken had arrived, and how many that were."""
        self._batches: list[Batch] = []
        self._changes = [(0.0, 1)]
        self.minutes: list[Minute] = []

    @property
    def rate(self) -> float | None:
        return self._inner.rate

    def executors(self, at: float) -> float:
        return next(number for when, number in reversed(self._changes) if when <= at)

    @property
    def requested(self) -> int:
        return self._changes[-1][1]

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        self._taken += seen.records
        behind = None
        if self._arrivals is not None:
            self._reach()
            behind = max(0, round((seen.completed_at - self._reached[0]) * 1000))
        self._batches.append(
            Batch(
                query="q",
                completed_at=seen.completed_at,
                processing_ms=seen.processing_ms,
                scheduling_ms=seen.scheduling_ms,
                records=seen.records,
                limit=seen.limit,
                executors=seen.cores,
                behind_ms=behind,
                cold=seen.cold,
            )
        )
        estimate = self._inner.completed(seen)
        if seen.completed_at >= MINUTE * (len(self.minutes) + 1):
            self._decide(seen.completed_at)
        return estimate

    def _reach(self) -> None:
        step = 0.05
        while self._reached[1] < self._taken:
            self._reached[1] += self._arrivals(self._reached[0]) * step
            self._reached[0] += step

    def _decide(self, now: float) -> None:
        registered = int(self.executors(now))
        status = Status(
            stream="s",
            epoch=1,
            phase="running",
            now=now,
            started_at=-MINUTE,
            last_seq=len(self._batches),
            spark=Spark(age=0.0, registered=registered, requested=self.requested),
            queries=(Query("q", True, interval_ms=10_000, behind_ms=self._batches[-1].behind_ms),),
            batches=tuple(self._batches),
            limits=(Limit("source", query="q", rate=self.rate, by="estimator"),),
        )
        seen = evaluate(status, window=MINUTE, batch_interval=INTERVAL)
        decision = self._policy.decide(Bounds(1, 10, 1), seen)
        if isinstance(decision, ScaleTo):
            self._changes.append((now + ARRIVE_AFTER, decision.target))
        self.minutes.append(Minute(now, seen, decision))

    def numbers(self, since: float, until: float) -> list[int]:
        """The executors that were asked for, minute by minute, with what there was before."""
        before = [int(self.executors(since))]
        targets = [
            minute.decision.target
            for minute in self.minutes
            if since <= minute.at < until and isinstance(minute.decision, ScaleTo)
        ]
        return before + targets


def run(
    arrivals: Any,
    seconds: float,
    kind: str = "work",
    policy: RatioPolicy | None = None,
    tells: bool = False,
    **fields: Any,
) -> tuple[Run, Autoscaled]:
    seed = fields.pop("seed", 0)
    policy = policy or RatioPolicy(max_executors=10)
    loop = Autoscaled(estimator_of(EstimatorPlan(kind)), policy, arrivals if tells else None)
    stream = Stream(
        **{
            "arrivals": arrivals,
            "cost": always(COST),
            "executors": loop.executors,
            "interval": INTERVAL,
            "overhead": OVERHEAD,
            "noise": 0.03,
            "queues": False,
            "cold": 6.0,
        }
        | fields
    )
    return simulate(stream, loop, seconds, seed), loop


def rises(numbers: list[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


def falls(numbers: list[int]) -> bool:
    return rises(numbers[::-1])


UP, DOWN, END = 600.0, 3600.0, 5400.0
"""Seconds at which the load rises and falls again."""


@pytest.mark.parametrize("kind", ["work", "pid"])
@pytest.mark.parametrize("queues", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_load_above_what_the_executors_do_gets_more_of_them_until_the_limit_is_open(
    kind: str, queues: bool, seed: int
) -> None:
    load = steps(500.0, (UP, 4000.0), (DOWN, 500.0))
    made, loop = run(load, END, kind, queues=queues, seed=seed)

    assert loop.numbers(0, UP) == [1], "one executor does what comes at first"
    rising = loop.numbers(UP, DOWN)
    assert rises(rising) and rising[-1] >= 5, "4,000 records a second take five"
    by_limit = [m for m in loop.minutes if m.seen.throttled and isinstance(m.decision, ScaleTo)]
    assert by_limit, "it is the limit that tells that there is more"

    before_the_fall = [m for m in loop.minutes if m.at < DOWN][-1].seen
    assert before_the_fall.throttled is None
    assert made.batches[-1].left < 1, "nothing waits at the source in the end"
    at_the_fall = [b for b in made.batches if DOWN - MINUTE < b.planned < DOWN]
    assert sum(b.left for b in at_the_fall) < 1, "nor does it under the load"

    falling = loop.numbers(DOWN, END)
    assert falls(falling) and falling[-1] <= 2


@pytest.mark.parametrize("load", [0.95, 1.0, 1.1, 1.9, 2.05, 3.7])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_load_at_the_edge_of_a_number_of_executors_does_not_move_it_to_and_fro(
    load: float, seed: int
) -> None:
    _, loop = run(always(load * ALONE), 7200.0, seed=seed)
    numbers = loop.numbers(0, 7200.0)
    assert rises(numbers), numbers
    assert loop.minutes[-1].seen.throttled is None


def test_where_the_source_tells_how_far_behind_it_is_it_takes_fewer_minutes() -> None:
    def minutes(tells: bool) -> int:
        load = steps(500.0, (UP, 6000.0))
        _, loop = run(load, 2400.0, tells=tells)
        enough = [m.at for m in loop.minutes if loop.executors(m.at) >= 7]
        return round((enough[0] - UP) / MINUTE)

    assert minutes(True) < minutes(False)


def test_a_backlog_that_may_be_there_gets_no_executors() -> None:
    """Half an hour is allowed, and the load is back to what it was before."""
    load = steps(700.0, (UP, 2000.0), (UP + 120, 700.0))
    policy = RatioPolicy(max_executors=10, max_lag="30 min")
    _, loop = run(load, 1800.0, policy=policy, tells=True)
    assert loop.numbers(0, 1800.0) == [1]
    assert any("and may be 1800 s" in minute.decision.reason for minute in loop.minutes)


def test_costlier_records_get_executors_too() -> None:
    cost = steps(COST, (UP, 4 * COST))
    made, loop = run(always(700.0), 3600.0, cost=cost)
    numbers = loop.numbers(0, 3600.0)
    assert rises(numbers) and numbers[-1] >= 4
    assert made.batches[-1].left < 1
