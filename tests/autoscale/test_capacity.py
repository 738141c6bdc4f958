"""The capacity policy on simulated streams."""

from dataclasses import replace

from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import measures, settling
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.learner import Workload

POLICY = CapacityPolicy(max_executors=40)
APPLICATION = Application(
    Workload(batch_interval=10.0, slots=2),
    overhead=0.8,
    work=0.0032,
    partitions=64,
    noise=0.1,
)
"""An executor is good for 575 records/s."""
BOUNDS = Bounds(1, 40, 3)


def level(*parts):
    """Records per second, each for so many minutes."""
    return Load("levels", 60.0, tuple(rate for rate, minutes in parts for _ in range(minutes)))


def reasons(run):
    return [each.decision.reason for each in run.decisions]


def test_it_decides_by_r_until_it_knows_and_says_so():
    run = simulate(APPLICATION, level((1000, 10)), POLICY, BOUNDS)
    assert "(by R: it learns from 2 minutes first, and knows 0 by now)" in reasons(run)[0]
    assert not any("by R" in reason for reason in reasons(run)[4:])


def test_each_decision_shows_its_sum():
    run = simulate(APPLICATION, level((1000, 30)), POLICY, BOUNDS)
    last = reasons(run)[-1]
    assert last.startswith("needs 1.")
    assert "executors for 1,000 records/s" in last
    assert "for its fluctuations at a price of 40: 3" in last


def test_a_step_is_answered_at_once_and_in_one_go():
    for queues in (True, False):
        load = level((900, 60), (7000, 30))
        run = simulate(replace(APPLICATION, queues=queues), load, POLICY, BOUNDS)
        came = settling(run, 3600.0, 4500.0)
        assert came.scale_ups <= 3
        assert came.final >= 13
        assert came.late_for <= 240


def test_a_low_load_gives_executors_back():
    run = simulate(APPLICATION, level((8000, 30), (900, 30)), POLICY, replace(BOUNDS, initial=20))
    assert run.decisions[-1].target <= 3


def test_it_is_cheaper_than_the_ratio_policy_and_hardly_late():
    load = level(*((3000 + 2500 * abs(n % 120 - 60) / 60, 1) for n in range(480)))
    run = simulate(APPLICATION, load, POLICY, replace(BOUNDS, initial=12))
    assert measures(run).late < 2
