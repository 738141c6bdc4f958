"""How long batches take, by records and executors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backtest.simulated import application


class TestWaves:
    @pytest.mark.parametrize(
        ("executors", "waves"), [(1, 32), (4, 8), (5, 7), (16, 2), (31, 2), (32, 1), (40, 1)]
    )
    def test_tasks_run_in_whole_waves(self, executors, waves):
        app = application(partitions=64, overhead=0.5, work=0.01)
        assert app.seconds(6400, executors) == pytest.approx(0.5 + waves * 1.0)

    def test_a_fluid_is_shared_evenly_by_slots_and_no_further_than_there_are_tasks(self):
        app = application(partitions=64, waves=False)
        assert app.share(5) == pytest.approx(1 / 10)
        assert app.share(40) == pytest.approx(1 / 64)

    def test_receivers_take_places(self):
        app = application(pinned=3)
        assert [app.places(number) for number in (0, 1, 2, 5)] == [0, 0, 1, 7]
        assert app.share(1) == math.inf
        assert application(pinned=2).share(5) == application().share(4)

    def test_tasks_are_those_of_the_shards(self):
        assert application(shards=50, tasks_per_shard=1.1, partitions=None).tasks == 55
        assert application(shards=1, tasks_per_shard=0.1, partitions=None).tasks == 1
        assert application(shards=50, partitions=7).tasks == 7

    def test_the_largest_partition_is_as_many_times_the_mean(self):
        one_wave = application(partitions=10, skew=3.0)
        assert one_wave.share(5) == pytest.approx(0.3)
        assert application(partitions=1).share(5) == 1

    def test_behind_many_waves_skew_matters_little(self):
        even, skewed = (application(partitions=200, skew=skew) for skew in (1.0, 3.0))
        # Of 100 waves on one executor the largest takes the place of three.
        assert even.share(1) <= skewed.share(1) <= even.share(1) * 1.03
        assert skewed.share(100) == pytest.approx(3 * even.share(100))

    def test_the_largest_partition_is_in_the_middle_wave(self):
        # Three waves of two tasks: one of the others, then half of the mass.
        app = application(partitions=6, skew=3.0)
        assert app.share(1) == pytest.approx(max(3 * 0.1, 0.1 + 0.5, 0.5))
        assert application(partitions=2, skew=1.5).share(1) == pytest.approx(0.75)

    def test_of_a_fluid_the_largest_partition_is_the_bound(self):
        app = application(partitions=10, skew=3.0, waves=False)
        assert app.share(1) == 0.5
        assert app.share(5) == pytest.approx(0.3)

    @given(
        st.integers(1, 300),
        st.floats(1, 10),
        st.integers(0, 5),
        st.integers(1, 60),
        st.booleans(),
        st.floats(0, 0.9),
    )
    def test_no_executor_makes_it_slower(self, tasks, skew, pinned, executors, waves, serial):
        app = application(
            partitions=tasks,
            skew=min(skew, tasks),
            pinned=pinned,
            waves=waves,
            serial=serial,
            sink_rate=1e5,
        )
        assert app.seconds(1000, executors + 1) <= app.seconds(1000, executors) + 1e-9


class TestSaturation:
    def test_a_serial_share_is_shortened_by_no_executor(self):
        app = application(serial=0.25, overhead=0.0, work=0.01, waves=False)
        assert app.seconds(100, 2) == pytest.approx(0.25 + 0.75 / 4)
        assert app.seconds(100, 32) == pytest.approx(0.25 + 0.75 / 64)

    def test_a_sink_takes_so_many_records_a_second_and_no_more(self):
        app = application(sink_rate=200.0)
        assert app.seconds(10_000, 4) == pytest.approx(50.8)
        assert app.seconds(10_000, 40) == pytest.approx(50.8)
        assert application(sink_rate=1e9).seconds(10_000, 4) == application().seconds(10_000, 4)

    def test_a_batch_without_records_costs_its_overhead(self):
        assert application().seconds(0, 0) == application().seconds(0, 4) == 0.8

    def test_its_capacity_is_what_it_keeps_up_with(self):
        app = application()
        for executors in (1, 4, 17):
            records = app.capacity(executors) * 10
            assert app.seconds(records, executors) == pytest.approx(10.0)
        assert app.capacity(4, cost=2.0) == pytest.approx(app.capacity(4) / 2)
        assert app.capacity(0) == 0
        assert application(overhead=10.0).capacity(4) == 0
        assert application(overhead=9.5).capacity(4) > 0
        assert app.seconds(1000, 4, cost=2.0) == app.seconds(2000, 4)
        assert app.busy(1000, 4) == app.busy(1000, 4, cost=1.0)
        assert app.capacity(4) == app.capacity(4, cost=1.0)
        assert application(work=0.0).capacity(4) == math.inf


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"overhead": -1.0}, "overhead = -1.0: must be seconds, at least 0"),
        ({"overhead": math.inf}, "overhead = inf: must be seconds, at least 0"),
        ({"costs": ((0.0, math.inf),)}, "and factors above 0"),
        ({"work": math.nan}, "work = nan: must be seconds, at least 0"),
        ({"shards": 0}, "shards = 0: must be a whole number, at least 1"),
        ({"partitions": 0}, "partitions = 0: must be a whole number, at least 1"),
        ({"partitions": None}, "partitions = None: must be given where shards are not"),
        ({"skew": 0.5}, "skew = 0.5: must be at least 1"),
        ({"skew": 65.0}, "skew = 65.0: must be at most the number of tasks, 64"),
        ({"serial": 1.0}, "serial = 1.0: must be at least 0 and below 1"),
        ({"sink_rate": 0.0}, "sink_rate = 0.0: must be above 0"),
        ({"noise": 1.0}, "noise = 1.0: must be at least 0 and below 1"),
        ({"start_delay": -1.0}, "start_delay = -1.0: must be seconds, at least 0"),
        ({"max_records": 0}, "max_records = 0: must be a whole number, at least 1"),
        ({"shards": math.inf}, "shards = inf: must be a whole number"),
        ({"partitions": 64.5}, "partitions = 64.5: must be a whole number"),
        ({"batch_failures": 1.0}, "batch_failures = 1.0: must be at least 0 and below 1"),
        ({"executor_failures": -1.0}, "executor_failures = -1.0: must be at least 0"),
        ({"costs": ((5.0, 1.0), (1.0, 2.0))}, "must be pairs of seconds, in order"),
        ({"costs": ((5.0, 0.0),)}, "and factors above 0"),
        ({"batch_interval": 0.0}, "workload.batch_interval = 0.0: must be above 0"),
    ],
)
def test_what_no_application_has_is_refused(fields, fault):
    with pytest.raises(ValueError) as refused:
        application(**fields)
    assert fault in str(refused.value)
