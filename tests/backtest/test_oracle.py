"""The cheapest executors by whoever knew the load."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import measures
from dagster_sparkscale.backtest.oracle import follow, oracle
from dagster_sparkscale.backtest.simulate import simulate
from dagster_sparkscale.declare.bounds import Bounds
from tests.backtest.simulated import BOUNDS, Always, At, By, application

FEW = Bounds(minimum=1, maximum=3, initial=1)
applications = st.builds(
    application,
    overhead=st.sampled_from([0.0, 0.5, 2.0]),
    work=st.sampled_from([0.01, 0.02]),
    partitions=st.sampled_from([2, 5, 8, 64]),
    start_delay=st.sampled_from([20.0, 30.0, 90.0]),
    waves=st.booleans(),
    serial=st.sampled_from([0.0, 0.2]),
    sink_rate=st.sampled_from([None, 500.0]),
    costs=st.sampled_from([(), ((70.0, 1.5),)]),
    queues=st.booleans(),
)
# What is not done at the end would be late later.
loads = st.lists(st.sampled_from([0.0, 50, 120, 150, 250, 300]), min_size=3, max_size=4).map(
    lambda rates: Load("drawn", 30.0, (*rates, 0.0, 0.0))
)


def every_way(app, load):
    """The cost of each schedule with which nothing is late, in executor-seconds by the parts of
    its minutes, and whether no batch waits for another either."""
    first = app.start_delay % 60
    moments = [0.0]
    for tick in range(1, int(load.seconds / 60) + 1):
        moments += [at for at in (tick * 60.0, tick * 60 + first) if at < load.seconds]
    lengths = [after - at for at, after in pairwise([*moments, load.seconds])]
    for numbers in product(range(1, 4), repeat=len(moments)):
        # Who is told to leave does so at a tick; who was asked for arrives in between.
        steps = zip(moments[1:], pairwise(numbers), strict=True)
        if any((one < other) if at % 60 == 0 else (one > other) for at, (one, other) in steps):
            continue
        run = follow(app, load, [*zip(moments, numbers, strict=True)])
        found = measures(run)
        if found.late == 0:
            cost = sum(map(lambda each: each[0] * each[1], zip(numbers, lengths, strict=True)))
            yield cost, found.longest_delay <= 2 * app.interval + 1e-6


@given(applications, loads)
@settings(max_examples=60, deadline=None)
def test_nobody_is_cheaper_without_being_late(app, load):
    ways = [*every_way(app, load)]
    found = oracle(app, load, FEW)
    if not ways:
        assert found.late > 0
        return
    assert found.late == 0
    moments = [*found.executors, (load.seconds, 0)]
    cost = sum(number * (after - at) for (at, number), (after, _) in pairwise(moments))
    assert cost >= min(cost for cost, _ in ways) - 1e-6
    # Where batches wait somebody may be cheaper, by who leaves in the middle of one.
    never_waiting = [cost for cost, at_once in ways if at_once]
    assert not never_waiting or cost <= min(never_waiting) + 1e-6


def test_a_constant_load_needs_one_number():
    load = Load("l", 60.0, (1000.0,) * 30)
    found = oracle(application(), load, BOUNDS)
    # 64 tasks of 0.5 s in 9.2 s: two executors of two slots take 16 waves, 8 s.
    assert found.executors == ((0.0, 2),)
    assert found.executor_hours == pytest.approx(1.0)


def test_it_asks_before_the_load_is_there():
    load = Load("l", 60.0, (1000.0,) * 5 + (4000.0,) * 5)
    (_, few), (at, many), *_ = oracle(application(), load, BOUNDS).executors
    assert few < many
    # The batch of the first ten seconds of more load is due 10 s later.
    assert at <= 310
    assert (at - 30) % 60 == 0


def test_batches_may_wait_as_long_as_they_are_not_late():
    load = Load("l", 10.0, (1000.0, 1000.0, 1000.0, 1000.0, 1000.0, 2200.0) * 20)
    # Three executors do 1673 records per second: the fullest batch makes the next one wait.
    found = oracle(application(), load, replace(BOUNDS, maximum=3))
    assert found.late == 0
    steady = measures(follow(application(), load, [(0.0, 3)]))
    assert 2 * 10 < steady.longest_delay <= 3 * 10


def test_a_cost_that_is_known_counts():
    load = Load("l", 60.0, (1000.0,) * 20)
    cheap, dear = (
        oracle(application(costs=costs), load, BOUNDS) for costs in ((), ((600.0, 3.0),))
    )
    assert len(dear.executors) > len(cheap.executors)
    assert (cheap.late, dear.late) == (0, 0)


def test_where_nothing_keeps_up_it_takes_all_there_is_and_says_how_much_was_late():
    load = Load("l", 60.0, (1000.0,) * 5 + (9000.0,) * 3 + (1000.0,) * 20)
    found = oracle(application(), load, Bounds(1, 10, 1))
    assert 0 < found.late < 40
    always = measures(simulate(application(), load, Always(), Bounds(1, 10, 1), initial=10))
    assert found.late == pytest.approx(always.late, abs=100 * 20 / load.seconds)
    assert found.executor_hours < 0.6 * always.executor_hours


def test_what_may_be_late_is_cheaper_and_no_later_than_it_may_be():
    # A spike of one batch each ten minutes.
    load = Load("l", 10.0, ((1000.0,) * 30 + (9000.0,) + (1000.0,) * 29) * 6)
    never = oracle(application(), load, BOUNDS)
    seldom = oracle(application(), load, BOUNDS, late=8.0)
    assert never.late == 0
    assert 0 < seldom.late <= 8
    assert seldom.executor_hours < 0.9 * never.executor_hours


@given(st.lists(st.sampled_from([500.0, 2000.0, 5000.0]), min_size=6, max_size=12))
@settings(max_examples=30, deadline=None)
def test_no_policy_that_is_never_late_is_cheaper(rates):
    load = Load("drawn", 60.0, tuple(rates))
    knowing = oracle(application(), load, BOUNDS)
    # Enough for the worst minute, and fewer wherever the last one needed less.
    for decider in (Always(), By(lambda seen: 16 if (seen.ratio or 1) > 0.3 else 8), At({3: 16})):
        run = simulate(application(), load, decider, replace(BOUNDS, initial=16))
        if measures(run).late == 0:
            assert knowing.executor_hours <= measures(run).executor_hours + 0.02


@pytest.mark.parametrize(
    ("fields", "bounds", "late", "fault"),
    [
        ({}, Bounds(1, None, 1), 0.0, "bounds.maximum = None: must be a number"),
        ({"max_records": 10}, BOUNDS, 0.0, "max_records = 10: must be None"),
        ({}, BOUNDS, 100.0, "late = 100.0: must be percent, at least 0 and below 100"),
    ],
)
def test_what_it_cannot_answer_is_refused(fields, bounds, late, fault):
    with pytest.raises(ValueError) as refused:
        oracle(application(**fields), Load("l", 60.0, (1.0,)), bounds, late=late)
    assert fault in str(refused.value)
