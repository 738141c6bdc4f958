"""The capacity policy tells each part of its sum as what it is, and what has bounded it."""

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.capacity.decide import MOST_TIMES, Sizing
from dagster_sparkscale.autoscale.capacity.headroom import LEVELS
from dagster_sparkscale.autoscale.capacity.learner import Known
from dagster_sparkscale.autoscale.capacity.model import Cost, Model
from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.capacity.sizing import Need, Size, Tasks, needed, size
from dagster_sparkscale.autoscale.capacity.sums import told
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import minute

NOON = 1_800_000_000
WORKLOAD = Workload(batch_interval=10.0, slots=2)
INF = float("inf")
SIZE = Size(executors=16, keep_up=16.0, catch_up=16.0, rate=6000.0, each=560.0)


def sum_of(one=SIZE, fluid=None, first=1, waiting=0.0, smallest=1):
    fluid = one.keep_up if fluid is None else fluid
    return told(one, fluid=fluid, smallest=smallest, first=first, price=40.0, waiting=waiting)


class TestTheSum:
    def test_what_whole_task_waves_add_is_none_of_its_fluctuations(self):
        assert sum_of(fluid=10.7) == (
            "needs 10.7 executors for 6,000 records/s (560 each), "
            "5.3 as tasks run in whole waves: 16"
        )

    def test_nor_is_what_rounding_adds(self):
        assert sum_of(SIZE._replace(keep_up=10.2, catch_up=15.3), waiting=10.0) == (
            "needs 10.2 executors for 6,000 records/s (560 each), 5.1 to catch up 10 s, "
            "0.7 to round up: 16"
        )

    def test_nor_what_is_tried_as_fewer_have_failed(self):
        text = sum_of(SIZE._replace(keep_up=10.5, catch_up=10.5), first=14)
        assert text.endswith(
            "0.5 to round up, 3 as fewer have failed at such a load, "
            "2 for its fluctuations at a price of 40: 16"
        )

    def test_fewer_than_keep_up(self):
        text = sum_of(SIZE._replace(executors=11), fluid=12.0)
        assert text.endswith(
            "4.0 as tasks run in whole waves, 5.0 fewer, as what waits meanwhile is not late: 11"
        )
        assert sum_of(SIZE._replace(keep_up=16.04)).endswith("(560 each): 16")

    def test_where_none_keeps_up_or_catches_up(self):
        assert sum_of(SIZE._replace(keep_up=INF, catch_up=INF), fluid=INF) == (
            "no number of executors keeps up with 6,000 records/s; 16 bring most of what can be had"
        )
        text = sum_of(SIZE._replace(catch_up=INF), fluid=12.0, waiting=30.0)
        assert text.endswith(
            "4.0 as tasks run in whole waves, no number of them catches up 30 s at once: 16"
        )

    @given(
        st.floats(1, 1e5),
        st.floats(0, 200),
        st.integers(1, 9),
        st.builds(Cost, st.floats(0, 0.9), st.floats(0, 1e-6), st.floats(1e-6, 1e-3)),
        st.builds(
            Tasks,
            st.integers(1, 8),
            pinned=st.integers(0, 5),
            tasks=st.none() | st.integers(1, 300),
            waves=st.booleans(),
        ),
    )
    def test_its_parts_come_to_it(self, rate, waits, first, cost, tasks):
        curve = tuple(max(0.0, 0.5 - 0.1 * n) for n in range(len(LEVELS)))
        one = size(Need(rate, waits, 10.0, curve, 40.0, first), cost, tasks, 10.0)
        assume(one.keep_up < INF and one.catch_up < INF)
        fluid = needed(rate, cost, tasks._replace(waves=False), 10.0)
        text = sum_of(one, fluid, first)
        parts, _, executors = text.removeprefix("needs ").rpartition(": ")
        head, *rest = re.split(r", (?=\d)", re.sub(r"(?<=\d),(?=\d{3})", "", parts))
        total = float(head.split()[0])
        for part in rest:
            number = float(part.split()[0])
            total += -number if "fewer, as what waits" in part else number
        assert int(executors) == one.executors
        assert abs(total - one.executors) < 0.3


def evaluation(requested, rate=6000.0, taken=5000.0, **others):
    return Evaluation(
        **{
            "window": 60.0,
            "uptime": 1e6,
            "ratio": taken / 10_000,
            "processing_ms": taken,
            "input_rate": rate,
            "processed_rate": rate * 10_000 / taken,
            "pending_batches": 1,
            "completed": 6,
            "delay": 10.0,
            "registered": requested,
            "requested": requested,
            "batch_interval": 10.0,
        }
        | others
    )


def knowing(executors, wants=(), spent=100.0, tried=0, **of_size):
    """A policy that wants so many, by a model that says so."""
    model = Model.begun(0.5, 60_000.0, 1 / 40)
    known = Known(
        WORKLOAD,
        40.0,
        60.0,
        fluid=model._replace(minutes=30, error=0.001),
        wanted=SIZE._replace(executors=executors, keep_up=executors, catch_up=executors, **of_size),
        wants=wants,
        spent=spent,
        tried=tried,
    )
    return Sizing(None, known)


@pytest.mark.parametrize(("pinned", "executors"), [(0, 1), (5, 3)])
def test_of_a_stream_into_which_nothing_comes_none_is_said_to_have_failed(pinned, executors):
    learner = CapacityPolicy().learner(Workload(batch_interval=10.0, slots=2, pinned=pinned))
    for number in range(1, 12):
        rate, taken = (6000.0, 5000.0) if number < 6 else (0.0, 300.0)
        seen = evaluation(4, rate, taken, pending_batches=0)
        learner = learner.after(minute(NOON + 60 * number, "running", 1, seen))
    decision = learner.decide(Bounds(1, None, 1), seen)
    assert decision.target == executors
    assert decision.reason.endswith(f", {executors} to have a place for a task: {executors}")


@pytest.mark.parametrize(
    ("rates", "in_vain"),
    [
        pytest.param((2500.0, 2500.0, 2500.0), True, id="a sink that takes no more"),
        pytest.param((2500.0, 3500.0, 2600.0), False, id="records that take twice the work"),
    ],
)
def test_records_that_take_more_work_are_not_executors_that_bring_nothing(rates, in_vain):
    learner, at = CapacityPolicy().learner(WORKLOAD), NOON
    for executors, rate in zip((4, 6, 9), rates, strict=True):
        for _ in range(4):
            at += 60
            learner = learner.after(minute(at, "running", 1, evaluation(executors, rate, 11_000.0)))
    decision = learner.decide(Bounds(1, 40, 1), evaluation(9, rates[-1], 11_000.0))
    assert ("it is not executors that it lacks" in decision.reason) == in_vain


def test_records_that_take_more_work_where_executors_kept_up_are_no_executors_in_vain():
    learner, at = CapacityPolicy().learner(WORKLOAD), NOON
    for executors, taken, minutes in ((4, 11_000.0, 4), (9, 6_000.0, 6), (9, 12_000.0, 4)):
        for _ in range(minutes):
            at += 60
            seen = evaluation(executors, 2500.0 if taken < 12_000 else 2083.0, taken)
            learner = learner.after(minute(at, "running", 1, seen))
    decision = learner.decide(Bounds(1, 40, 1), evaluation(9, 2083.0, 12_000.0))
    assert "it is not executors that it lacks" not in decision.reason
    assert decision.target > 9


def test_what_was_in_vain_is_tried_again_after_an_hour_however_long_it_goes_on():
    learner, at, tries = CapacityPolicy().learner(WORKLOAD), NOON, []
    for executors in (4, 6, *[9] * 20):
        for _ in range(4):
            at += 60
            seen = evaluation(executors, 2500.0, 11_000.0)
            learner = learner.after(minute(at, "running", 1, seen))
            decision = learner.decide(Bounds(1, 40, 1), seen)
            tries.append("it is not executors that it lacks" not in decision.reason)
    assert not all(tries)
    assert any(tries[tries.index(False) :])


class TestWhatHasBoundedIt:
    def test_the_guard_by_r_is_told_where_it_stops_a_step_down(self):
        decision = knowing(16, wants=(16, 16, 16)).decide(
            Bounds(1, 40, 1), evaluation(20, taken=9500.0)
        )
        assert decision.target == 18
        assert decision.reason.startswith("20 -> 18: needs ")
        assert decision.reason.endswith(
            ": 16, but R would be above 1.1 on fewer if they share all the work"
        )

    def test_what_was_needed_a_moment_ago_is_told(self):
        decision = knowing(10, wants=(10, 13, 10)).decide(Bounds(1, 40, 1), evaluation(20))
        assert decision.target == 13
        assert decision.reason.endswith(": 10; 13 were needed a moment ago")

    def test_a_bound_is_told(self):
        decision = knowing(3, wants=(3,)).decide(Bounds(15, 40, 15), evaluation(20, taken=1000.0))
        assert decision.target == 15
        assert decision.reason.endswith(": 3 (the minimum)")

    def test_nothing_is_told_of_a_step_down_to_the_size(self):
        decision = knowing(16, wants=(16,)).decide(Bounds(1, 40, 1), evaluation(20))
        assert decision.target == 16
        assert decision.reason.endswith(": 16")

    @pytest.mark.parametrize(("tried", "target"), [(0, 80), (4, 80), (10, 200)])
    def test_a_huge_size_is_asked_for_no_further_than_was_measured(self, tried, target):
        decision = knowing(9000, tried=tried).decide(Bounds(1, None, 1), evaluation(4))
        assert decision.target == target
        assert f"(at most {MOST_TIMES} times the executors that were measured)" in decision.reason
        assert decision.reason.endswith(": 9000")

    def test_more_that_are_requested_already_stay(self):
        decision = knowing(9000).decide(Bounds(1, None, 1), replace(evaluation(4), requested=500))
        assert not isinstance(decision, ScaleTo)
        assert f"at most {MOST_TIMES} times" in decision.reason
        assert not decision.pinned

    def test_a_maximum_that_is_lower_is_what_is_told(self):
        decision = knowing(9000).decide(Bounds(1, 40, 1), evaluation(4))
        assert decision.target == 40
        assert "(the maximum)" in decision.reason


minutes = st.tuples(st.floats(1, 1e6), st.floats(500, 30_000), st.sampled_from([1, 1, 1, 2, 9]))


@given(
    st.integers(1, 4),
    st.lists(st.tuples(minutes, st.integers(1, 4)), min_size=1, max_size=5),
)
@settings(max_examples=200)
def test_without_a_maximum_a_step_is_bounded_by_what_was_measured(executors, stays):
    learner, at = CapacityPolicy().learner(WORKLOAD), NOON
    for (rate, taken, pending), times in stays:
        for _ in range(times):
            at += 60
            seen = evaluation(executors, rate, taken, pending_batches=pending)
            learner = learner.after(minute(at, "running", 1, seen))
            decision = learner.decide(Bounds(1, None, 1), seen)
            if isinstance(decision, ScaleTo) and "(by R:" not in decision.reason:
                assert decision.target <= MOST_TIMES * executors
