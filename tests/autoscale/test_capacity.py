"""The capacity policy on simulated streams."""

import re
from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import measures, settling
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.learner import Workload

POLICY = CapacityPolicy(max_executors=40)
APPLICATION = Application(
    Workload(batch_interval=10.0, slots=2),
    overhead=0.8,
    work=0.0032,
    partitions=64,
    noise=0.1,
)
"""One executor is good for 575 records/s."""
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
    assert re.search(r"executors for (1,0|9)\d\d records/s", last)
    assert last.endswith(" to round up: 2")


@pytest.mark.parametrize("queues", [True, False])
def test_a_step_is_answered_at_once(queues):
    load = level((900, 60), (6000, 30))
    run = simulate(replace(APPLICATION, queues=queues, shards=64), load, POLICY, BOUNDS)
    came = settling(run, 3600.0, 3900.0)
    assert came.scale_ups <= 2
    assert came.final >= 11
    assert came.late_for <= 240


def test_a_low_load_gives_executors_back():
    run = simulate(APPLICATION, level((8000, 30), (900, 30)), POLICY, replace(BOUNDS, initial=20))
    assert run.decisions[-1].target <= 4


@pytest.mark.parametrize(("interval", "rent"), [(15.0, "0.5"), (60.0, "2.0")])
def test_spare_executors_may_cost_as_much_as_one_does_in_two_intervals(interval, rent):
    policy = CapacityPolicy(interval=interval, max_executors=40)
    workload = replace(APPLICATION.workload, batch_interval=5.0)
    app = replace(APPLICATION, workload=workload, overhead=0.4)
    load = level((800, 60), (500, 30))
    run = simulate(app, load, policy, replace(BOUNDS, initial=2))
    assert run.decisions[-1].requested == 1
    assert any(f"so far, and go from {rent} on" in reason for reason in reasons(run))


def test_it_is_no_later_than_the_ratio_policy_and_cheaper():
    load = level(*((3000 + 2500 * abs(n % 120 - 60) / 60, 1) for n in range(480)))
    of = (APPLICATION, load)
    bounds = replace(BOUNDS, initial=12)
    ours = measures(simulate(*of, POLICY, bounds))
    ratio = measures(simulate(*of, RatioPolicy(max_executors=40), bounds))
    assert ours.late < 1
    assert ours.executor_hours < 0.8 * ratio.executor_hours


def test_a_higher_price_is_less_late_and_costs_more():
    rates = [4000 * (1.6 if n % 7 == 0 else 0.8 + 0.1 * (n % 4)) for n in range(300)]
    load = level(*((rate, 1) for rate in rates))
    frugal, careful = (
        measures(simulate(APPLICATION, load, CapacityPolicy(price_of_lateness=price), BOUNDS))
        for price in (10, 400)
    )
    assert careful.late < frugal.late
    assert careful.executor_hours > frugal.executor_hours


def test_a_load_within_the_minute_is_answered_by_its_peak():
    """By its mean it would need four executors: twenty seconds of work that take them forty-eight
    wait too long in each minute. Seven do them in twenty-eight."""
    rates = tuple(5500.0 if second % 60 < 20 else 300.0 for second in range(4 * 3600))
    run = simulate(APPLICATION, Load("on and off", 1.0, rates), POLICY, BOUNDS)
    assert run.decisions[-1].requested >= 7
    late = [each for each in run.minutes[120:] if each.delay > 30]
    assert len(late) < 6


def test_where_a_record_costs_more_from_now_on_it_is_noticed():
    app = replace(APPLICATION, costs=((3600.0, 2.0),))
    run = simulate(app, level((2000, 120)), POLICY, replace(BOUNDS, initial=5))
    assert measures(run).late < 5
    assert run.decisions[-1].requested >= 8


def test_executors_that_bring_nothing_are_not_asked_for():
    """The sink takes 3,000 records/s, and 4,000 come."""
    app = replace(APPLICATION, sink_rate=3000.0)
    run = simulate(app, level((2000, 60), (4000, 120)), POLICY, replace(BOUNDS, initial=5))
    assert max(each.target for each in run.decisions) < 30
    assert any("it is not executors that it lacks" in reason for reason in reasons(run))


def test_no_more_are_asked_for_than_its_shards_keep_busy():
    app = replace(APPLICATION, shards=16, partitions=16, work=0.0004)
    run = simulate(app, level((1000, 30), (60_000, 60)), POLICY, BOUNDS)
    assert max(each.target for each in run.decisions) == 8


def test_receivers_places_are_no_capacity():
    free = simulate(APPLICATION, level((4000, 60)), POLICY, replace(BOUNDS, initial=10))
    workload = replace(APPLICATION.workload, pinned=6)
    app = replace(APPLICATION, workload=workload)
    taken = simulate(app, level((4000, 60)), POLICY, replace(BOUNDS, initial=14, pinned=3.0))
    assert taken.decisions[-1].target >= free.decisions[-1].target + 3


@pytest.mark.parametrize("price", [0, -1, 10_001, True, float("nan"), "dear"])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(DeclarationError, match="price_of_lateness"):
        CapacityPolicy(price_of_lateness=price)
