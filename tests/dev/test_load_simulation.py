"""The simulated stream and its measures, against what is worked out by hand."""

import math
from dataclasses import replace

import pytest

from dagster_sparkscale.driver.backpressure.estimators import Estimate, MeasuredBatch, estimator_of
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dev.load_measures import converge, lost, over, overshoot
from dev.load_simulation import Done, Run, Stream, always, ramp, simulate, steps


class Given:
    """An estimator that says what it is told to, whatever it sees, which it keeps."""

    def __init__(self, first: float | None, *then: float) -> None:
        self.rate = first
        self._then = list(then)
        self.seen: list[MeasuredBatch] = []

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        self.seen.append(seen)
        if self._then:
            self.rate = self._then.pop(0)
        return None


STREAM = Stream(arrivals=always(1000.0), cost=always(0.001), interval=1.0, overhead=0.25)


def shown(run: Run) -> list[tuple[float, float, float, int]]:
    return [
        (batch.planned, round(batch.began, 6), round(batch.ended, 6), batch.records)
        for batch in run.batches
    ]


class TestLoads:
    def test_steps(self):
        load = steps(1.0, (10, 5.0), (20, 2.0))
        assert [load(at) for at in (0, 9.9, 10, 19.9, 20, 99)] == [1.0, 1.0, 5.0, 5.0, 2.0, 2.0]

    def test_a_ramp(self):
        load = ramp(1.0, 3.0, 10, 20)
        assert [load(at) for at in (0, 10, 15, 20, 99)] == [1.0, 1.0, 2.0, 3.0, 3.0]


class TestTheStream:
    def test_a_batch_takes_its_overhead_and_its_share_of_the_executors(self):
        stream = replace(STREAM, executors=steps(1.0, (5, 4.0)), cost=steps(0.001, (9, 0.002)))
        assert stream.takes(500, 0) == 0.75
        assert stream.takes(500, 5) == 0.375
        assert stream.takes(500, 9) == 0.5

    def test_what_fits(self):
        assert STREAM.fitting(0) == 750.0
        assert STREAM.fitting(0, 0.5) == 250.0
        assert STREAM.fitting(0, 0.2) == 0.0
        assert replace(STREAM, interval=2.0).fitting(0) == 875.0
        assert replace(STREAM, executors=always(2)).fitting(0) == 1500.0

    def test_what_fits_allows_for_chance(self):
        stream = replace(STREAM, stragglers=0.1, straggling=2.5)
        assert stream.chance == 1.25
        assert stream.fitting(0) == pytest.approx((0.8 - 0.25) / 0.001)
        assert replace(STREAM, noise=0.2).chance == math.exp(0.02)


class TestDStreams:
    def test_batches_wait_for_each_other(self):
        """1000 records a second of 1 ms each: a batch takes 1.25 s of every second."""
        estimator = Given(None)
        run = simulate(STREAM, estimator, 5.0)
        assert shown(run) == [(1, 1.0, 2.25, 1000), (2, 2.25, 3.5, 1000), (3, 3.5, 4.75, 1000)]
        assert [seen.scheduling_ms for seen in estimator.seen] == [0, 250, 500]
        assert [seen.processing_ms for seen in estimator.seen] == [1250] * 3
        assert [seen.completed_at for seen in estimator.seen] == [2.25, 3.5, 4.75]
        assert all(seen.limit is None and seen.interval_ms == 1000 for seen in estimator.seen)
        assert all(batch.limit == math.inf and batch.left == 0 for batch in run.batches)

    def test_a_limit_holds_from_the_moment_it_is_known(self):
        """The first batch is over after 0.35 s of the second interval: 0.35 * 100 + 0.65 * 400."""
        run = simulate(STREAM, Given(100.0, 400.0), 4.0)
        assert shown(run)[:3] == [(1, 1, 1.35, 100), (2, 2, 2.545, 295), (3, 3, 3.65, 400)]
        assert [batch.limit for batch in run.batches[:3]] == pytest.approx([100, 295, 400])
        assert run.rates == ((0.0, 100.0), (1.35, 400.0))
        assert [run.rate_at(at) for at in (0, 1.3, 1.35, 9)] == [100, 100, 400, 400]

    def test_what_the_limit_refuses_stays_at_the_source(self):
        run = simulate(STREAM, Given(400.0), 4.0)
        assert [batch.left for batch in run.batches] == pytest.approx([600, 1200, 1800])
        later = simulate(replace(STREAM, arrivals=steps(1000, (1, 100))), Given(400.0), 4.0)
        assert [batch.records for batch in later.batches] == [400] * 3
        assert [batch.left for batch in later.batches] == pytest.approx([600, 300, 0])

    def test_without_a_limit_receivers_are_as_fast_as_they_are(self):
        run = simulate(replace(STREAM, fastest=300.0), Given(None), 3.0)
        assert [batch.records for batch in run.batches] == [300, 300]

    def test_executors_and_chance_are_those_of_its_time(self):
        stream = replace(STREAM, executors=steps(1, (2, 4)), stragglers=1.0, straggling=1.0)
        estimator = Given(100.0)
        run = simulate(stream, estimator, 4.0)
        assert [round(batch.took, 6) for batch in run.batches[:2]] == [0.7, 0.55]
        assert [seen.cores for seen in estimator.seen[:2]] == [1, 4]

    def test_the_first_batch_with_records_is_cold(self):
        estimator = Given(100.0)
        stream = replace(STREAM, arrivals=steps(0.0, (1, 500.0)), cold=0.5)
        run = simulate(stream, estimator, 5.0)
        assert [(b.records, round(b.took, 6)) for b in run.batches[:3]] == [
            (0, 0.25),
            (100, 0.85),
            (100, 0.35),
        ]
        assert [seen.cold for seen in estimator.seen[:3]] == [False, True, False]


class TestStructuredStreaming:
    STREAM = replace(STREAM, queues=False)

    def test_a_batch_that_overruns_is_followed_at_once_by_one_with_what_came(self):
        estimator = Given(None)
        stream = replace(self.STREAM, arrivals=steps(1000.0, (2, 500.0)))
        run = simulate(stream, estimator, 9.0)
        # Nothing is there at 0. What came until 2.25: 1000 in the second until 2, then 125.
        assert shown(run)[:3] == [
            (1, 1, 2.25, 1000),
            (2.25, 2.25, 3.625, 1125),
            (3.625, 3.625, 4.562, 687),
        ]
        assert all(seen.scheduling_ms is None for seen in estimator.seen)

    def test_others_wait_for_their_trigger(self):
        run = simulate(self.STREAM, Given(100.0, 400.0), 4.5)
        assert shown(run) == [(1, 1, 1.35, 100), (2, 2, 2.65, 400), (3, 3, 3.65, 400)]
        assert [batch.limit for batch in run.batches] == [100, 400, 400]
        assert [batch.left for batch in run.batches] == pytest.approx([900, 1500, 2100])


def test_the_same_seed_brings_the_same_run_and_another_another():
    stream = replace(STREAM, noise=0.1, stragglers=0.1)
    runs = [simulate(stream, estimator_of(EstimatorPlan("work")), 60.0, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_every_estimator_meets_the_same_chance():
    stream = replace(STREAM, overhead=1e-9, noise=0.3, arrivals=always(2000.0))
    factors = []
    for kind in ("work", "pid"):
        run = simulate(stream, estimator_of(EstimatorPlan(kind, initial_rate=300.0)), 30.0, seed=4)
        factors.append(
            {b.planned: round(b.took / stream.takes(b.records, b.began), 3) for b in run.batches}
        )
    both = factors[0].keys() & factors[1].keys()
    assert len(both) > 20
    assert all(factors[0][at] == factors[1][at] for at in both)


def a_run(*batches: tuple[float, float, int, float, float]) -> Run:
    """Of (planned, seconds, records, limit, left), none of which waits for another."""
    done = [Done(p, p, p + took, records, limit, left) for p, took, records, limit, left in batches]
    return Run(STREAM, tuple(done), ())


class TestMeasures:
    """750 records fit into the interval, 650 into 0.9 of it."""

    def limited(self, *limits: float) -> Run:
        return a_run(*((at, 0.5, 1, limit, 1.0) for at, limit in enumerate(limits, 1)))

    def test_converged_is_near_what_fits_for_nine_of_ten(self):
        run = self.limited(100, 300, 700, 100, *[700] * 12)
        assert converge(run, 0, 99) == 3.0
        assert converge(run, 2, 99) == 1.0
        assert converge(self.limited(100, 300, 700, 100, 100, *[700] * 12), 0, 99) == 6.0

    @pytest.mark.parametrize("limit", [586, 700, 824])
    def test_near_is_within_a_tenth(self, limit):
        assert converge(self.limited(*[limit] * 10), 0, 99) == 1.0

    @pytest.mark.parametrize("limit", [584, 826, math.inf, 0])
    def test_farther_is_not(self, limit):
        assert converge(self.limited(*[limit] * 20), 1, 21) == 20.0

    def test_who_never_does_took_all_the_time_there_was(self):
        assert converge(self.limited(*[100, 700] * 10), 1, 21) == 20.0
        assert converge(self.limited(*[700] * 9), 1, 10) == 9.0

    def test_overshoot_is_that_of_the_largest_batch(self):
        run = a_run((1, 0.5, 100, 1, 1), (2, 9.0, 1250, 1, 1), (3, 9.0, 750, 1, 1))
        assert overshoot(run) == 0.5
        assert overshoot(run, since=3) == 0.0
        assert overshoot(run, until=2) == 0.0

    def test_over_is_the_share_that_took_too_long(self):
        run = a_run((1, 1.0, 9, 1, 1), (2, 1.1, 9, 1, 1), (3, 2.0, 9, 1, 1), (5, 3.0, 0, 1, 1))
        assert over(run) == pytest.approx(2 / 3)
        assert over(run, since=3) == 1.0
        assert over(a_run()) == 0.0

    def test_lost_is_what_was_refused_while_executors_were_idle(self):
        """The first batch has 400 less than fits and is idle for half a second; the second has
        100 less, the third as many as fit; the last is only there to show when that was over."""
        last = (4, 0.9, 650, 650, 500)
        run = a_run((1, 0.5, 250, 250, 500), (2, 0.8, 550, 550, 500), (3, 0.9, 650, 650, 500), last)
        assert lost(run) == pytest.approx((400 + 100 + 0) / (3 * 650))
        assert lost(run, since=2) == pytest.approx(100 / (2 * 650))

    def test_no_more_is_lost_than_there_was_or_than_there_was_time_for(self):
        following = (2, 0.9, 650, 650, 500)
        assert lost(a_run((1, 0.5, 250, 250, 80), following)) == pytest.approx(80 / 650)
        assert lost(a_run((1, 0.9, 250, 250, 500), following)) == pytest.approx(100 / 650)

    def test_nothing_is_lost_while_batches_wait_or_where_nothing_was_refused(self):
        assert lost(a_run((1, 1.0, 10, 10, 500), (2, 0.9, 650, 650, 500))) == 0.0
        assert lost(a_run((1, 0.3, 10, 650, 0), (2, 0.3, 10, 650, 0))) == 0.0
