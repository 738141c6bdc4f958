"""What came of a run, in numbers."""

import math
from dataclasses import replace

import pytest

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.machine import Done
from dagster_sparkscale.backtest.measures import Settling, measures, settling
from dagster_sparkscale.backtest.simulate import Decided, Run, simulate
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from tests.backtest.simulated import BOUNDS, At, application, held


def test_batches_that_take_no_longer_than_their_interval_are_never_late():
    found = measures(held(2200.0))  # 9.6 s
    assert (found.late, found.rescales, found.most) == (0.0, 0, 4)
    assert found.longest_delay == pytest.approx(19.6)


def test_executor_hours_are_those_of_registered_executors():
    assert measures(held(seconds=1800.0)).executor_hours == pytest.approx(2.0)


def test_late_is_the_time_in_which_late_batches_gathered():
    # 600 s, of which the second minute brings batches of 16.8 s; they queue, and those of the
    # third minute wait for them.
    run = held(Load("l", 60.0, (1000, 4000, *[1000] * 8)))
    late = [batch for batch in run.batches if batch.delay > 30]
    assert measures(run).late == pytest.approx(100 * 10 * len(late) / 600)
    assert len(late) > 6


def test_records_that_are_never_done_are_late_as_well():
    run = held(Load("l", 60.0, (8000.0,) * 10))
    assert run.undone_since == pytest.approx(10 * len(run.batches))
    # All but the first ones, and what came in the last 30 s.
    assert measures(run).late == pytest.approx(100 * 570 / 600, abs=2)
    assert measures(run).longest_delay == pytest.approx(600 - run.undone_since)


def test_a_change_back_is_a_reversal():
    load = Load("l", 60.0, (1000.0,) * 10)
    run = simulate(application(), load, At({1: 6, 2: 8, 3: 5, 5: 5, 6: 9}), BOUNDS)
    found = measures(run)
    assert (found.rescales, found.scale_ups, found.reversals, found.most) == (4, 3, 2, 9)


BATCH = Done(began=100.0, records=1, gathered=10.0, processing=5.0, delay=15.0, executors=4)


def asked(at: float, before: int, target: int) -> Decided:
    same = target == before
    return Decided(at, before, Hold("enough") if same else ScaleTo(target, "too few"))


def made_up(batches=(), decisions=(), **fields) -> Run:
    """A run of 1000 s on 4 executors, of which nothing is known but this."""
    plain = Run(
        *(application(), Load("l", 60.0, (1.0,)), (), tuple(batches), 4000.0),
        *(((0.0, 4),), tuple(decisions), 1000.0, 1000.0),
    )
    return replace(plain, **fields)


class TestMeasures:
    @pytest.mark.parametrize(("delay", "late"), [(30.0, 0.0), (30.001, 1.0), (99.0, 1.0)])
    def test_a_batch_is_late_from_three_intervals_on(self, delay, late):
        found = measures(made_up([BATCH._replace(delay=delay)]))
        assert (found.late, found.longest_delay) == (late, delay)

    @pytest.mark.parametrize(("undone", "late"), [(970.0, 0.0), (960.0, 1.0), (0.0, 97.0)])
    def test_so_are_records_that_wait_at_the_end(self, undone, late):
        found = measures(made_up(undone_since=undone))
        assert (found.late, found.longest_delay) == (pytest.approx(late), 1000 - undone)

    def test_changes_are_counted(self):
        steps = [(4, 5), (5, 5), (5, 6), (6, 4), (4, 4), (4, 3), (3, 9), (9, 8)]
        run = made_up(decisions=[asked(60.0 * at, *step) for at, step in enumerate(steps)])
        found = measures(run)
        assert (found.rescales, found.scale_ups, found.reversals) == (6, 3, 3)
        assert run.rescales == 6

    def test_the_most_are_of_those_that_came(self):
        run = made_up(changes=((0.0, 4), (90.0, 7), (200.0, 2)), decisions=[asked(60, 4, 30)])
        assert measures(run).most == 7


class TestSettling:
    LATE = BATCH._replace(delay=40.0)
    HELD = asked(360, 4, 4)

    def test_a_step_that_is_answered(self):
        run = made_up(
            [self.LATE._replace(began=at) for at in (290.0, 300.0, 340.0)],
            [
                asked(240, 4, 9),
                asked(300, 9, 12),
                asked(360, 12, 16),
                asked(420, 16, 10),
                asked(425, 10, 10),
            ],
        )
        found = settling(run, 300.0, 430.0)
        assert found == Settling(45.0, 120.0, scale_ups=2, overshoot=pytest.approx(0.6), final=10)

    def test_one_that_needs_nothing(self):
        found = settling(made_up([BATCH], [self.HELD]), 300.0)
        assert found == Settling(0.0, 0.0, scale_ups=0, overshoot=0.0, final=4)

    def test_what_is_later_does_not_count(self):
        later = [self.LATE._replace(began=at) for at in (295.0, 300.0, 396.0)]
        run = made_up(later, [self.HELD, asked(400, 4, 5), asked(401, 5, 20)])
        assert settling(run, 300.0, 400.0) == Settling(5.0, 100.0, 1, 0.0, 5)
        assert settling(run, 300.0).final == 20
        assert settling(run, 300.0).late_for == 101.0

    def test_down_to_nothing(self):
        run = made_up(decisions=[asked(360, 4, 6), asked(420, 6, 0)])
        assert settling(run, 300.0).overshoot == math.inf
