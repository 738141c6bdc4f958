"""What came of a run, in numbers."""

import pytest

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import measures, settling
from dagster_sparkscale.backtest.simulate import simulate
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
    late = [batch for batch in run.batches if batch.delay > 20]
    assert measures(run).late == pytest.approx(100 * 10 * len(late) / 600)
    assert len(late) > 6


def test_records_that_are_never_done_are_late_as_well():
    run = held(Load("l", 60.0, (8000.0,) * 10))
    assert run.undone_since == pytest.approx(10 * len(run.batches))
    # All but the first ones, and what came in the last 20 s.
    assert measures(run).late == pytest.approx(100 * 580 / 600, abs=2)
    assert measures(run).longest_delay == pytest.approx(600 - run.undone_since)


def test_a_change_back_is_a_reversal():
    load = Load("l", 60.0, (1000.0,) * 10)
    run = simulate(application(), load, At({1: 6, 2: 8, 3: 5, 5: 5, 6: 9}), BOUNDS)
    found = measures(run)
    assert (found.rescales, found.scale_ups, found.reversals, found.most) == (4, 3, 2, 9)


def test_a_step_is_settled_with_the_last_change():
    load = Load("l", 60.0, (1000.0,) * 5 + (4000.0,) * 15)
    run = simulate(application(), load, At({6: 12, 9: 8}), BOUNDS)
    found = settling(run, step=300)
    assert (found.scale_ups, found.final, found.overshoot) == (1, 8, 0.5)
    assert found.settled_after == 240
    assert 60 < found.late_for < 240
