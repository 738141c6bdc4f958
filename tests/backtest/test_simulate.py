"""A policy on a simulated stream: what it sees, and what it comes to."""

from dataclasses import dataclass, replace
from typing import Self

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.simulate import Run, simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.learner import BLOCK, Learner, Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import Minute
from tests.backtest.simulated import BOUNDS, Always, At, application


def seen(load: Load, targets: dict[int, int] | None = None, executors=4, **fields) -> Evaluation:
    """What is seen at the last tick."""
    decider = At(targets or {})
    simulate(application(**fields), load, decider, BOUNDS, initial=executors)
    return decider.seen[-1]


class TestWhatIsSeen:
    def test_a_stream_that_keeps_up(self):
        found = seen(constant(1000, 300))
        assert (found.ratio, found.processing_ms, found.completed) == (0.48, 4800, 6)
        assert (found.input_rate, found.gathered_rate, found.peak_rate) == (1000, 1000, 1000)
        assert found.processed_rate == pytest.approx(10_000 / 4.8)
        assert (found.scheduling_ms, found.delay) == (0, 14.8)
        assert (found.registered, found.requested, found.removing) == (4, 4, 0)
        assert (found.pending_batches, found.backlog_records) == (1, 0)
        assert (found.batch_interval, found.uptime, found.window) == (10.0, 300.0, 60.0)
        assert (found.overdue, found.stalled, found.failed) == (None, None, 0)
        assert (found.lag, found.shards, found.limit, found.throttled) == (None,) * 4

    def test_structured_streaming_has_no_batches_that_wait(self):
        found = seen(constant(1000, 300), queues=False)
        assert (found.ratio, found.completed, found.delay) == (0.48, 6, 14.8)
        assert (found.pending_batches, found.backlog_records) == (None, 0)

    def test_batches_that_queue(self):
        # 3000 records a second take 12.8 s: 22 of the 29 that were due are done.
        found = seen(constant(3000, 300))
        assert found.ratio == 1.28
        assert found.pending_batches == 30 - 22
        assert found.backlog_records == 7 * 30_000
        assert found.gathered_rate == 3000
        assert found.delay == pytest.approx(10 + 22 * 12.8 - 220 + 10)
        assert found.overdue is None

    def test_a_batch_that_takes_longer_than_the_window(self):
        found = seen(Load("l", 60.0, (1000.0, 1000.0, 20_000.0, 0.0)), queues=False)
        # 200,000 records came until 130, and take 80.8 s; what came until then takes longer.
        assert (found.completed, found.ratio) == (1, 8.08)
        assert (found.overdue_for, found.stalled) == (pytest.approx(29.2), None)

    def test_no_batch_at_all(self):
        found = seen(Load("l", 60.0, (1000.0, 1000.0, 30_000.0, 0.0)), queues=False)
        assert (found.completed, found.ratio) == (0, None)
        assert found.stalled == pytest.approx(11.0)
        assert found.stalled_for == pytest.approx(110.0)
        assert found.silence == "no batch completed in the last 60 s"
        assert found.active_tasks == 8

    def test_without_executors_nothing_is_done(self):
        found = seen(constant(1000, 600), executors=0)
        assert (found.registered, found.completed, found.active_tasks) == (0, 0, None)
        assert found.stalled == pytest.approx(59.0)
        assert found.silent == 600

    def test_a_limit_that_is_reached(self):
        found = seen(constant(2000, 600), max_records=10_000, tells_lag=True)
        assert (found.limit, found.throttled, found.throttled_limit) == (1000, "simulated", 1000)
        assert found.ratio == 0.48
        # Half of what came is in the source: of the batch that was planned at 590, since 295.
        assert found.lag == pytest.approx(295)
        assert found.throttled_lag == found.lag

    def test_a_limit_that_is_not(self):
        found = seen(constant(500, 600), max_records=10_000, tells_lag=True)
        assert (found.limit, found.throttled, found.lag) == (1000, None, 0)

    def test_a_burst_within_the_minute(self):
        found = seen(Load("l", 30.0, (2000.0, 0.0) * 5))
        assert (found.input_rate, found.peak_rate) == (1000, 2000)
        assert found.ratio == 0.48

    def test_executors_that_were_asked_for(self):
        found = seen(constant(1000, 240), {3: 7}, start_delay=90.0)
        assert (found.registered, found.requested) == (4, 7)

    def test_executors_that_leave(self):
        # They do after the batch of 12.8 s that began when they were told to; the one that is in
        # progress at the next tick began with those that stay.
        decider = At({3: 2, 4: 1})
        simulate(application(), constant(3000, 300), decider, BOUNDS, interval=5.0)
        fourth = decider.seen[3]
        assert (fourth.registered, fourth.removing, fourth.staying) == (4, 2, 2)

    def test_shards_and_what_they_keep_busy(self):
        app = application(shards=6, partitions=None)
        bounds = []

        class Reads(Always):
            def decide(self, of: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
                bounds.append(of.useful)
                assert evaluation.shards == 6
                return Hold("read")

        simulate(app, constant(100, 60), Reads(), BOUNDS)
        assert bounds == [3]

    def test_receivers_are_counted(self):
        assert seen(constant(100, 60), pinned=3).receivers == 3
        assert seen(constant(100, 60), pinned=9, executors=4).receivers == 8


class TestRun:
    def test_it_is_the_same_by_the_same_seed(self):
        def run(seed: int) -> Run:
            noisy = application(noise=0.1, executor_failures=2.0, batch_failures=0.05)
            return simulate(noisy, constant(1500, 3600), At({9: 7}), BOUNDS, seed=seed)

        assert run(1) == run(1)
        assert run(1).batches != run(2).batches

    def test_two_policies_meet_the_same_noise(self):
        app = application(noise=0.1)
        one, other = (
            simulate(app, constant(1500, 1200), decider, BOUNDS)
            for decider in (At({}), At({10: 9}))
        )
        assert one.batches[:50] == other.batches[:50]
        # From then on a batch takes as many times as long.
        both = zip(one.batches[-20:], other.batches[-20:], strict=True)
        slower = [few.processing / many.processing for few, many in both]
        assert min(slower) > 1 and max(slower) - min(slower) < 0.01

    def test_minutes_are_those_that_a_sensor_would_have_stored(self):
        run = simulate(application(), constant(1000, 180), At({2: 6}), BOUNDS, began_at=7000.0)
        first, second, third = run.minutes
        plain = Minute(
            *(7060, "running", 1),
            ratio=0.48,
            registered=4,
            requested=4,
            processing_ms=4800,
            scheduling_ms=0,
            # Of the first minute's six batches one is due when it is over.
            input_rate=833,
            processed_rate=2080,
            backlog=0,
            pending=1,
            completed=5,
            failed=0,
            peak_rate=1000,
            delay=14.8,
        )
        assert first == plain
        assert (second.decision, second.reason) == ("scale to 6", "as planned")
        assert (third.registered, third.requested, third.decision) == (6, 6, None)

    def test_a_target_outside_the_bounds_is_refused(self):
        with pytest.raises(ValueError) as refused:
            simulate(application(), constant(1000, 600), At({3: 41}), BOUNDS)
        assert str(refused.value) == (
            "target = 41: must be within the bounds, from 1 to 40; it was asked for as 'as planned'"
        )

    @pytest.mark.parametrize("interval", [60.0, 0.0])
    def test_an_interval_that_does_not_fit_is_refused(self, interval):
        fault = f"interval = {interval}: must be above 0, and within the 30 s of the load 'l'"
        with pytest.raises(ValueError) as refused:
            simulate(application(), Load("l", 30.0, (1.0,)), Always(), BOUNDS, interval=interval)
        assert str(refused.value) == fault

    def test_it_begins_with_the_initial_number(self):
        assert simulate(application(), constant(1, 60), Always(), BOUNDS).changes == ((0.0, 4),)
        run = simulate(application(), constant(1, 60), Always(), BOUNDS, initial=9)
        assert run.changes == ((0.0, 9),)


class TestDeciders:
    def test_a_ratio_policy_scales_up_and_down(self):
        load = Load("l", 60.0, (1000.0,) * 10 + (3000.0,) * 20 + (300.0,) * 30)
        run = simulate(application(), load, RatioPolicy(max_executors=40), BOUNDS)
        assert max(number for _, number in run.changes) >= 6
        assert run.changes[-1][1] < 4
        assert run.rescales == sum(minute.decision is not None for minute in run.minutes)

    def test_a_policy_decides_at_its_interval(self):
        run = simulate(application(), constant(1000, 1200), RatioPolicy(interval=120), BOUNDS)
        assert [each.at for each in run.decisions] == [120.0 * number for number in range(1, 11)]
        assert run.minutes[-1].completed == 12

    def test_where_it_is_looked_at_more_often_it_decides_when_it_is_due(self):
        ticks = [61.0 * number for number in range(1, 11)]
        policy = RatioPolicy(interval=180)
        run = simulate(application(), constant(1000, 1200), policy, BOUNDS, ticks=ticks)
        assert len(run.minutes) == 10
        assert [each.at for each in run.decisions] == [61.0, 244.0, 427.0, 610.0]

    def test_a_minute_that_comes_late_is_about_the_whole_time(self):
        run = simulate(application(), constant(1000, 600), Always(), BOUNDS, ticks=[60, 120, 270])
        assert [minute.completed for minute in run.minutes] == [5, 6, 15]

    def test_a_learner_knows_the_minute_that_it_decides_on(self):
        class Counts:
            def __init__(self, minutes: tuple[int, ...] = ()) -> None:
                self.minutes = minutes

            def after(self, minute: Minute, /) -> "Counts":
                return Counts((*self.minutes, minute.at))

            def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
                return Hold(str(self.minutes))

        run = simulate(application(), constant(1000, 120), Counts(), BOUNDS)
        assert [each.decision.reason for each in run.decisions] == ["(60,)", "(60, 120)"]

    def test_a_policy_that_learns_knows_two_blocks_at_most(self):
        run = simulate(
            application(),
            constant(100, 3 * BLOCK, step=BLOCK),
            Learning(interval=3600.0),
            replace(BOUNDS, initial=1),
            began_at=5.0 * BLOCK,
        )
        known = [int(each.decision.reason) for each in run.decisions]
        # From the third block on those of the first are forgotten.
        assert known == [*range(1, 12), *range(7, 13), 7]


class Learning(AutoscalePolicy):
    """A policy that says how many minutes it knows."""

    def learner(self, workload: Workload, /) -> Learner | None:
        assert workload == application().workload
        return Known()


@dataclass(frozen=True)
class Known:
    """So many minutes."""

    minutes: int = 0

    def after(self, minute: Minute, /) -> Self:
        return replace(self, minutes=self.minutes + 1)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return Hold(str(self.minutes))
