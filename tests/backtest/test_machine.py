"""A simulated stream in time: batches and executors."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.machine import Machine
from dagster_sparkscale.backtest.oracle import follow
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.status import Status
from tests.backtest.simulated import application, held

applications = st.builds(
    application,
    partitions=st.sampled_from([1, 8, 64]),
    queues=st.booleans(),
    noise=st.sampled_from([0.0, 0.3]),
    max_records=st.none() | st.sampled_from([1, 5000, 30_000]),
    executor_failures=st.sampled_from([0.0, 20.0]),
    batch_failures=st.sampled_from([0.0, 0.2]),
    pinned=st.sampled_from([0, 3]),
    start_delay=st.sampled_from([0.0, 25.0, 100.0]),
    costs=st.sampled_from([(), ((100.0, 2.0), (300.0, 0.5))]),
)
loads = st.lists(st.sampled_from([0.0, 200, 1000, 5000]), min_size=2, max_size=12).map(
    lambda rates: Load("drawn", 60.0, tuple(rates))
)
requests = st.lists(st.integers(0, 12), max_size=12)


def played(app, load, numbers, seed=1) -> Machine:
    """A machine with another number of executors requested each minute."""
    machine = Machine(app, load, 4, seed)
    for minute, executors in enumerate(numbers, start=1):
        machine.advance(60.0 * minute)
        machine.request(executors)
    machine.advance(max(load.seconds, machine.now))
    return machine


@given(applications, loads, requests)
@settings(max_examples=150, deadline=None)
def test_every_record_is_in_one_batch_or_waits(app, load, numbers):
    machine = played(app, load, numbers)
    done = sum(batch.records for batch in machine.done)
    # What is done is what came until the oldest record that is not.
    assert done == pytest.approx(load.arrived(machine.undone_since), abs=1.01)
    assert sum(batch.gathered for batch in machine.done) == pytest.approx(machine.undone_since)


@given(applications, loads, requests)
@settings(max_examples=150, deadline=None)
def test_batches_follow_each_other(app, load, numbers):
    machine = played(app, load, numbers)
    for one, other in pairwise(machine.done):
        assert one.ended <= other.began + 1e-6
    for batch in machine.done:
        assert batch.ended <= machine.now + 1e-6
        assert batch.delay == 0 or batch.delay >= batch.processing - 1e-6
        assert batch.processing >= 0


@given(applications, loads, requests)
@settings(max_examples=150, deadline=None)
def test_executor_seconds_are_those_of_the_registered(app, load, numbers):
    machine = played(app, load, numbers)
    until = [*machine.changes[1:], (machine.now, 0)]
    seconds = sum(
        number * (after - at)
        for (at, number), (after, _) in zip(machine.changes, until, strict=True)
    )
    assert machine.executor_seconds == pytest.approx(seconds)
    assert all(one[0] < other[0] and one[1] != other[1] for one, other in pairwise(machine.changes))


@given(applications, loads, requests)
@settings(max_examples=100, deadline=None)
def test_its_status_is_one_of_an_agent(app, load, numbers):
    machine = played(app, load, numbers)
    status = machine.status(60.0)
    again = Status.from_json(json.dumps(status.as_json()))
    one, other = (evaluate(each, window=60.0, batch_interval=10.0) for each in (status, again))
    assert one == other
    assert (one.registered, one.requested) == (machine.registered, machine.requested)


class TestQueues:
    def test_a_batch_has_the_records_of_its_interval(self):
        batches = held(Load("l", 10.0, (100.0, 300.0, 200.0, 0, 0, 0))).batches
        assert [batch.records for batch in batches[:3]] == [1000, 3000, 2000]
        assert [batch.began for batch in batches[:3]] == [10, 20, 30]
        assert [batch.gathered for batch in batches[:3]] == [10, 10, 10]

    def test_a_batch_that_is_due_waits_for_the_one_before(self):
        batches = held(Load("l", 10.0, (4000.0, 100.0, 100.0, 0, 0, 0))).batches
        # 40,000 records: 16.8 s; the next one, of 0.8 + 0.4 s, was due at 20.
        assert [batch.began for batch in batches[:3]] == pytest.approx([10, 26.8, 30])
        assert [batch.delay for batch in batches[:3]] == pytest.approx([26.8, 18.0, 11.2])

    def test_with_a_limit_the_rest_stays_in_the_source(self):
        run = held(Load("l", 10.0, (300.0,) + (100.0,) * 5), max_records=1500)
        batches = run.batches
        assert [batch.records for batch in batches] == [1500] * 4 + [1000]
        # The second half of the first interval is in the second batch.
        assert batches[0].gathered == pytest.approx(5)
        assert batches[1].delay == pytest.approx(20 + batches[1].processing - 5)


class TestStructured:
    def test_a_batch_begins_once_the_one_before_is_done_and_not_before_its_trigger(self):
        batches = held(Load("l", 10.0, (4000.0,) + (100.0,) * 5), queues=False).batches
        assert [batch.began for batch in batches[:3]] == pytest.approx([10, 26.8, 30])

    def test_it_takes_all_that_has_come(self):
        batches = held(Load("l", 10.0, (4000.0,) + (100.0,) * 5), queues=False).batches
        assert [batch.records for batch in batches[:3]] == [40_000, 1680, 320]
        assert [batch.gathered for batch in batches[:3]] == pytest.approx([10, 16.8, 3.2])

    def test_without_data_it_runs_no_batch(self):
        run = held(constant(0.0, 600), queues=False)
        assert {batch.processing for batch in run.batches} == {0.0}
        assert run.minutes[-1].ratio == 0
        assert run.minutes[-1].completed == 6

    def test_a_batch_that_fails_takes_twice_as_long_and_is_done(self):
        fine, failing = (
            held(queues=False, seconds=3600.0, batch_failures=share).batches for share in (0.0, 0.2)
        )
        assert not any(batch.failed for batch in failing)
        times = {round(batch.processing / fine[0].processing, 6) for batch in failing}
        assert times == {1.0, 2.0}


class TestExecutors:
    LOAD = constant(1000, 600)

    def machine(self, **fields) -> Machine:
        machine = Machine(application(**fields), self.LOAD, 4, 1)
        machine.advance(60)
        return machine

    def test_new_ones_work_after_the_start_delay(self):
        machine = self.machine(start_delay=75.0)
        machine.request(6)
        machine.advance(134.9)
        assert (machine.registered, machine.requested) == (4, 6)
        machine.advance(135)
        assert machine.registered == 6

    def test_who_leaves_does_so_after_the_batch(self):
        machine = self.machine()
        machine.request(2)
        # The batch of 4.8 s that began at 60 has four to its end; the next one has two.
        machine.advance(64.7)
        assert (machine.registered, machine.staying, machine.leaving) == (4, 2, 2)
        machine.advance(64.9)
        assert (machine.registered, machine.leaving) == (2, 0)
        machine.advance(80)
        assert [batch.executors for batch in machine.done[-2:]] == [4, 2]

    def test_without_a_batch_they_leave_at_once(self):
        machine = self.machine()
        machine.advance(67)
        machine.request(2)
        assert machine.registered == 2

    def test_those_that_have_not_come_are_not_waited_for(self):
        machine = self.machine()
        machine.request(9)
        machine.advance(70)
        machine.request(5)
        machine.advance(200)
        assert machine.changes == [(0.0, 4), (90.0, 5)]

    def test_those_that_come_help_with_the_batch_in_progress(self):
        # Of 3000 records a second a batch takes 12.8 s on 4 executors, and 6.8 s on 8.
        load = constant(3000, 600)
        run = follow(application(), load, [(0.0, 4), (16.8, 8)])
        assert run.batches[0].processing == pytest.approx(6.8 + (12.8 - 6.8) / 2)
        assert run.batches[0].executors == 8

    def test_without_executors_a_batch_waits_for_the_first(self):
        run = follow(application(), self.LOAD, [(0.0, 0), (95.0, 4)])
        assert run.batches[0].began == 10
        assert run.batches[0].ended == pytest.approx(99.0)

    def test_one_that_fails_is_replaced(self):
        machine = Machine(application(executor_failures=6.0), constant(1000, 7200), 4, 1)
        machine.advance(7200)
        lost = sum(one > other for (_, one), (_, other) in pairwise(machine.changes))
        came = sum(one < other for (_, one), (_, other) in pairwise(machine.changes))
        # 4 executors, two hours, six times an hour each.
        assert 25 < lost < 75
        assert abs(lost - came) <= 4
        assert machine.requested == 4

    def test_the_tasks_of_one_that_fails_run_again(self):
        plain, failing = (
            held(2000.0, seconds=7200.0, executor_failures=rate).batches for rate in (0.0, 6.0)
        )
        usual = plain[0].processing
        slow = [batch for batch in failing if batch.executors == 3]
        assert slow and all(batch.processing > usual for batch in slow)


def test_failed_batches_of_dstreams_are_such():
    run = held(seconds=3600.0, batch_failures=0.25)
    failed = sum(batch.failed for batch in run.batches)
    assert 0.15 < failed / len(run.batches) < 0.35
    assert sum(minute.failed or 0 for minute in run.minutes) == failed


def test_noise_has_the_mean_and_the_deviation_that_it_should():
    times = [each.processing for each in held(seconds=36_000.0, noise=0.2).batches]
    mean = sum(times) / len(times)
    deviation = (sum((each - mean) ** 2 for each in times) / len(times)) ** 0.5
    assert mean == pytest.approx(4.8, rel=0.02)
    assert deviation / mean == pytest.approx(0.2, rel=0.1)


def test_a_record_costs_what_it_does_when_its_batch_begins():
    run = held(seconds=400.0, costs=((100.0, 2.0), (200.0, 3.0)))
    times = {batch.began: round(batch.processing, 6) for batch in run.batches}
    assert [times[at] for at in (90, 100, 190, 200)] == [4.8, 8.8, 8.8, 12.8]
