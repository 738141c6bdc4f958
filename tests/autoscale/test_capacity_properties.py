"""What holds of the capacity policy whatever its minutes say."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.capacity.headroom import LEVELS, at, late_share
from dagster_sparkscale.autoscale.capacity.model import Cost, Model
from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.capacity.sizing import Need, Tasks, size
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.evaluation import Evaluation, Load
from dagster_sparkscale.observe.minutes import Minute, minute, restored, stored

POLICY = CapacityPolicy(max_executors=20)
WORKLOAD = Workload(batch_interval=10.0, slots=2)
NOON = 1_800_000_000


def some(most):
    return st.none() | st.floats(0, most, allow_nan=False)


steps = st.sampled_from([60, 60, 60, 60, 61, 600, 0, -60, 86_400])
executors = st.none() | st.integers(0, 25)
evaluations = st.builds(
    Evaluation,
    window=st.just(60.0),
    uptime=st.just(1e6),
    ratio=some(20),
    overdue=some(20),
    stalled=some(20),
    processing_ms=some(200_000),
    input_rate=some(1e6),
    processed_rate=some(1e6),
    peak_rate=some(1e6),
    delay=some(2000),
    backlog_records=st.none() | st.integers(0, 10**9),
    pending_batches=st.none() | st.integers(0, 500),
    lag=some(1e5),
    completed=st.integers(0, 60),
    shards=st.none() | st.integers(0, 200),
    registered=executors,
    requested=executors,
    batch_interval=st.just(10.0),
    throttled=st.none() | st.just("q"),
)
usual = st.builds(
    lambda rate, executors, noise: Evaluation(
        window=60.0,
        uptime=1e6,
        ratio=rate / executors / 600 * noise,
        query="q",
        loads=(Load("q", rate / executors / 600 * noise),),
        processing_ms=rate / executors / 600 * noise * 10_000,
        input_rate=rate,
        processed_rate=600 * executors / noise,
        peak_rate=rate * 1.1,
        delay=10 + rate / executors / 60 * noise,
        pending_batches=1,
        completed=6,
        registered=executors,
        requested=executors,
        batch_interval=10.0,
    ),
    st.floats(100, 8000),
    st.integers(1, 20),
    st.floats(0.8, 1.2),
)
histories = st.lists(
    st.tuples(steps, evaluations | usual, st.sampled_from(["running"] * 9 + ["failed"])),
    min_size=1,
    max_size=25,
)
calm = st.lists(usual, min_size=4, max_size=12)
bounds = st.builds(
    lambda low, more, useful: Bounds(low, low + more, low, useful=useful),
    st.integers(1, 10),
    st.integers(0, 20),
    st.none() | st.integers(1, 30),
)


def told(history):
    at, found = NOON, []
    for step, evaluation, state in history:
        at += step
        found.append((minute(at, state, 1 + at // 90_000 % 2, evaluation), evaluation))
    return found


@given(histories, bounds)
@settings(max_examples=150)
def test_whatever_is_measured_it_decides_within_the_bounds_and_says_why(history, limits):
    learner = POLICY.learner(WORKLOAD)
    for each, evaluation in told(history):
        learner = learner.after(each)
        decision = learner.decide(limits, evaluation)
        assert decision.reason
        if isinstance(decision, ScaleTo):
            assert limits.clamp(decision.target) == decision.target
            grows = decision.target > (evaluation.requested or 0)
            if grows and limits.useful is not None:
                assert decision.target <= max(limits.useful, limits.minimum)


@given(histories)
@settings(max_examples=60)
def test_what_is_learned_of_stored_minutes_is_what_was_learned_as_they_came(history):
    as_they_came = POLICY.learner(WORKLOAD)
    minutes = [each for each, _ in told(history)]
    for each in minutes:
        as_they_came = as_they_came.after(each)
    again = POLICY.learner(WORKLOAD)
    for number, each in enumerate(minutes):
        decided = replace(each, decision="scale to 3", reason="R") if number % 2 else each
        (back,) = restored(stored([decided]))
        again = again.after(back)
    assert again == as_they_came


@given(histories)
@settings(max_examples=60)
def test_what_was_known_before_a_minute_stays_as_it_was(history):
    learner = POLICY.learner(WORKLOAD)
    for each, _ in told(history):
        before = repr(learner)
        after = learner.after(each)
        assert repr(learner) == before
        assert after is not learner
        learner = after


@given(calm, usual)
def test_none_is_taken_away_while_it_is_behind(history, last):
    learner = POLICY.learner(WORKLOAD)
    at = NOON
    for evaluation in [*history, replace(last, pending_batches=6, delay=60.0)]:
        at += 60
        learner = learner.after(minute(at, "running", 1, evaluation))
        decision = learner.decide(Bounds(1, 20, 1), evaluation)
    behind = replace(last, pending_batches=6, delay=60.0)
    decision = learner.decide(Bounds(1, 20, 1), behind)
    assert "(by R:" in decision.reason or not (
        isinstance(decision, ScaleTo) and decision.target < behind.requested
    )


@given(calm)
def test_minutes_that_say_nothing_change_nothing_of_what_is_known_of_batches(history):
    learner = POLICY.learner(WORKLOAD)
    for number, evaluation in enumerate(history):
        learner = learner.after(minute(NOON + 60 * number, "running", 1, evaluation))
    at = NOON + 60 * len(history)
    after = learner.after(Minute(at, "unknown")).after(Minute(at + 60, "running", epoch=2))
    assert after.known.model == learner.known.model
    assert after.known.forecast.last == learner.known.forecast.last
    assert after.known.wanted is None


rates = st.floats(1, 1e6)
costs = st.builds(Cost, st.floats(0, 0.9), st.floats(0, 1e-4), st.floats(1e-9, 1e-3))
tasks = st.builds(
    Tasks,
    st.integers(1, 8),
    pinned=st.integers(0, 5),
    tasks=st.none() | st.integers(1, 300),
    waves=st.booleans(),
)
curves = st.builds(
    late_share,
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 9)), min_size=1, max_size=3),
    st.floats(1e-300, 2),
    st.floats(0.05, 2),
)


@given(rates, st.floats(1, 3), costs, tasks, curves, st.floats(1, 500), st.floats(0, 300))
def test_more_load_or_more_that_waits_needs_no_fewer_to_keep_up(
    rate, more, cost, of, curve, price, waits
):
    few = size(Need(rate, 0.0, 10.0, curve, price), cost, of, 10.0)
    many = size(Need(rate * more, waits, 10.0, curve, price), cost, of, 10.0)
    assert many.keep_up >= few.keep_up
    assert many.catch_up >= few.catch_up
    assert few.executors >= 1
    if few.catch_up < float("inf"):
        assert few.executors >= few.catch_up * (1 - 1e-6)


@given(curves)
def test_more_room_is_never_later(curve):
    assert all(a >= b - 1e-9 for a, b in pairwise(curve))
    shares = [at(curve, factor) for factor in (0.0, 0.5, *LEVELS, 100.0)]
    assert all(a >= b - 1e-9 for a, b in pairwise(shares))


def test_a_price_is_worth_more_executors():
    curve = late_share([(1.0, 3.0)], 1.0, 1 / 6)
    of = (Cost(0.08, 0.0, 0.0016), Tasks(2))
    found = [
        size(Need(4000, 0.0, 10.0, curve, price), *of, 10.0).executors for price in (1, 40, 400)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_the_model_finds_what_batches_cost_by_records_and_executors():
    model = Model.begun(0.1 + 5000 * 1e-3 / 8, 5000, 1 / 8)
    for number in range(200):
        records, places = 3000 + 500 * (number % 9), 8 + 4 * (number % 5)
        model = model.after(0.1 + records * 1e-3 / places, records, 1 / places)
    assert abs(model.cost.overhead - 0.1) < 0.02
    assert abs(model.cost.time(6000, 1 / 20) - 0.4) < 0.02


@given(st.floats(0.0, 0.6), st.sampled_from([(1, 45), (45, 1), (2, 90)]))
def test_what_a_batch_costs_without_records_is_not_taken_for_work(overhead, loads):
    """Also where the load falls to next to nothing or rises from it, in one minute."""

    def time(records: float) -> float:
        return overhead + records * 0.008

    model = Model.begun(time(loads[0]), loads[0], 1 / 6)
    for load in loads * 2:
        for _ in range(20):
            model = model.after(time(load), load, 1 / 6)
    assert model.cost.records(1 / 6) == pytest.approx((1 - overhead) / 0.008, rel=0.3)


def test_work_that_doubles_is_noticed_within_two_minutes():
    model = Model.begun(0.5, 5000, 1 / 8)
    for number in range(30):
        model = model.after(0.5 * (1 + 0.02 * (-1) ** number), 5000, 1 / 8)
    for _ in range(2):
        model = model.after(0.92, 5000, 1 / 8)
    assert abs(model.cost.time(5000, 1 / 8) - 0.92) < 0.05


@pytest.mark.parametrize("overhead", [0.05, 0.3])
@pytest.mark.parametrize("loads", [(100,), (60, 180), (10, 150), (40, 100, 240)])
def test_it_is_noticed_as_well_where_the_load_changes_each_minute(loads, overhead):
    model = Model.begun(overhead + loads[0] * 0.004, loads[0], 1 / 8)
    for number in range(39):
        load, noise = loads[number % len(loads)], 1 + 0.02 * (-1) ** (number // 2)
        model = model.after((overhead + load * 0.004) * noise, load, 1 / 8)
    for number in range(6):
        load = loads[number % len(loads)]
        model = model.after(overhead + load * 0.008, load, 1 / 8)
    assert model.cost.records(1 / 8) == pytest.approx((1 - overhead) / 0.008, rel=0.15)


@given(
    st.floats(0.0, 2.0),
    st.just(0.0) | st.floats(1e-9, 0.01),
    st.just(0.0) | st.floats(1e-9, 0.01),
    st.integers(1, 4),
    st.integers(0, 9),
    st.none() | st.integers(1, 64),
    st.booleans(),
)
def test_a_size_has_a_place_for_a_task_and_an_end(
    overhead, alone, shared, slots, pinned, number, waves
):
    curve = tuple(max(0.0, 0.5 - 0.1 * n) for n in range(len(LEVELS)))
    tasks = Tasks(slots, pinned, number, waves and number is not None)
    found = size(Need(100.0, 0.0, 10.0, curve, 100.0), Cost(overhead, alone, shared), tasks, 10.0)
    assert found.executors * slots > pinned
    if overhead >= 1:  # it is the driver's own time that does not fit: no executor shortens that
        assert found.executors <= 40_000 * shared / slots + pinned / slots + 2


def test_without_a_maximum_no_more_are_asked_for_than_shorten_what_does_not_fit():
    curve = (0.0,) * len(LEVELS)
    found = size(Need(100.0, 0.0, 10.0, curve, 100.0), Cost(1.2, 0.0, 0.001), Tasks(2), 10.0)
    assert found.keep_up == float("inf")
    assert found.executors == 2  # 1000 records take 0.25 intervals beside 1.2


def test_a_rate_of_nearly_nothing_needs_one_place():
    assert Tasks(2, tasks=8, waves=True).executors(float("inf")) == 1


def test_it_learns_also_where_ticks_come_further_apart_than_its_interval():
    known = CapacityPolicy(interval=10.0).learner(WORKLOAD)
    for number in range(10):
        one = Evaluation(
            window=30.0,
            processing_ms=4000.0,
            input_rate=1000.0,
            processed_rate=2500.0,
            pending_batches=1,
            completed=3,
            registered=4,
            requested=4,
        )
        known = known.after(minute(NOON + 30 * number, "running", 1, one))
    assert known.known.model is not None
