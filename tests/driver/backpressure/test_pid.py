"""Spark's estimator, by hand; `test_pid_in_spark.py` has it beside Spark's own class."""

import math
from typing import Any

import pytest

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.pid import Pid, PidRateEstimator


class TestByHand:
    def test_the_first_batch_gives_no_estimate(self):
        assert PidRateEstimator(1000).compute(1000, 500, 1000, 0) is None

    def test_then_the_rate_is_what_the_last_batch_was_processed_at(self):
        """With the default weights, where nothing waits."""
        estimator = PidRateEstimator(1000)
        estimator.compute(1000, 500, 1000, 0)
        assert estimator.compute(2000, 900, 1500, 0) == 600.0
        assert estimator.compute(3000, 300, 1500, 0) == 200.0

    def test_what_waits_lowers_it_by_a_fifth(self):
        estimator = PidRateEstimator(1000)
        estimator.compute(1000, 500, 1000, 0)
        assert estimator.compute(2000, 1000, 1000, 1500) == 1000.0 - 0.2 * 1.5 * 1000.0

    def test_the_weights_weigh(self):
        estimator = PidRateEstimator(2000, 0.5, 0.1, 0.25, 10.0)
        estimator.compute(1000, 400, 1000, 0)
        # Error 400 - 300, waiting 0.5 intervals of 300, change of the error 100 in 4 seconds.
        assert estimator.compute(5000, 300, 1000, 1000) == 400.0 - 50.0 - 15.0 - 6.25

    def test_errors_are_those_of_the_batch_before(self):
        estimator = PidRateEstimator(1000, 0.0, 0.0, 1.0)
        estimator.compute(1000, 1000, 1000, 0)
        assert estimator.compute(2000, 900, 1000, 0) == 1000.0 - 100.0
        assert estimator.compute(3000, 700, 1000, 0) == 900.0 - (200.0 - 100.0)
        assert estimator.compute(5000, 700, 1000, 0) == 800.0 - (100.0 - 200.0) / 2

    def test_one_record_and_one_millisecond_and_the_first_moment_count(self):
        estimator = PidRateEstimator(1000, min_rate=0.5)
        assert estimator.compute(-1, 500, 1000, 0) is None
        estimator.compute(0, 500, 1000, 0)
        assert estimator.compute(1, 1, 1000, 0) == 1.0
        assert estimator.compute(2, 1, 1, 0) == 1000.0
        assert estimator.compute(3, 1, 100_000, 0) == 0.5

    def test_what_is_no_number_stays_none_as_in_java(self):
        estimator = PidRateEstimator(1000, 1e308, 1e308)
        estimator.compute(1000, 5, 10_000, 0)
        found = estimator.compute(2000, 10**12, 1, 10**9)
        assert found is not None and math.isnan(found)

    def test_it_never_falls_below_the_least(self):
        estimator = PidRateEstimator(1000, min_rate=100.0)
        estimator.compute(1000, 500, 1000, 0)
        assert estimator.compute(2000, 10, 1000, 0) == 100.0
        default = PidRateEstimator(1000)
        default.compute(1000, 500, 1000, 0)
        assert default.compute(2000, 10, 1000, 0) == 100.0

    @pytest.mark.parametrize(
        "batch", [(2000, 0, 1000, 0), (2000, 500, 0, 0), (1000, 500, 1000, 0), (999, 500, 1000, 0)]
    )
    def test_empty_and_instant_batches_and_those_out_of_order_change_nothing(self, batch):
        estimator = PidRateEstimator(1000)
        estimator.compute(1000, 500, 1000, 0)
        assert estimator.compute(*batch) is None
        assert estimator.compute(2000, 900, 1500, 0) == 600.0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"interval_ms": 0}, "interval_ms = 0: must be above 0"),
            ({"proportional": -0.1}, "proportional = -0.1: must be at least 0"),
            ({"integral": -1.0}, "integral = -1.0: must be at least 0"),
            ({"derivative": math.nan}, "derivative = nan: must be at least 0"),
            ({"min_rate": 0.0}, "min_rate = 0.0: must be above 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, arguments, said):
        with pytest.raises(ValueError, match=said):
            PidRateEstimator(**{"interval_ms": 1000} | arguments)


def seen(at: float, records: int, processing_ms: int, **more: Any) -> MeasuredBatch:
    return MeasuredBatch(at, records, processing_ms, **{"interval_ms": 1000} | more)


class TestAtWork:
    def test_there_is_no_limit_until_the_second_batch_as_in_spark(self):
        estimator = Pid()
        assert estimator.rate is None
        assert estimator.completed(seen(1.0, 500, 1000)) is None
        assert estimator.rate is None
        found = estimator.completed(seen(2.0, 900, 1500))
        assert found is not None
        assert estimator.rate == found.rate == 600.0
        assert found.reason == "900 records in 1.5 s, which had waited 0.0 s"

    def test_there_is_one_where_it_is_declared(self):
        assert Pid(initial_rate=700.0).rate == 700.0
        assert Pid(max_rate=900.0).rate == 900.0
        assert Pid(initial_rate=700.0, max_rate=900.0).rate == 700.0

    def test_the_most_is_not_exceeded_and_not_remembered(self):
        """Spark's receivers heed spark.streaming.receiver.maxRate; its estimator does not know."""
        estimator = Pid(max_rate=400.0)
        estimator.completed(seen(1.0, 500, 1000))
        found = estimator.completed(seen(2.0, 900, 1500, scheduling_ms=500))
        assert found is not None and found.rate == 400.0
        # 540 was remembered: 540 - (540 - 350) - 0.
        estimator.completed(seen(3.0, 350, 1000))
        assert estimator.rate == 350.0

    def test_failed_and_first_batches_count_as_in_spark(self):
        estimator = Pid()
        estimator.completed(seen(1.0, 500, 1000, cold=True))
        found = estimator.completed(seen(2.0, 900, 1500, failed=True))
        assert found is not None and found.rate == 600.0

    def test_the_least_is_that_of_spark_where_none_is_declared(self):
        estimator = Pid()
        estimator.completed(seen(1.0, 500, 1000))
        found = estimator.completed(seen(2.0, 1234, 45_600, scheduling_ms=7800))
        assert found is not None and found.rate == 100.0
        assert found.reason == "1,234 records in 45.6 s, which had waited 7.8 s"

    def test_batches_a_millisecond_apart_are_two(self):
        estimator = Pid(proportional=0.0, integral=0.0, derivative=0.001)
        estimator.completed(seen(1_700_000_000.001, 500, 1000))
        found = estimator.completed(seen(1_700_000_000.002, 400, 1000))
        assert found is not None and found.rate == 500.0 - 0.001 * 100 / 0.001

    def test_another_interval_begins_anew(self):
        estimator = Pid()
        estimator.completed(seen(1.0, 500, 1000))
        estimator.completed(seen(2.0, 900, 1500))
        assert estimator.completed(seen(3.0, 900, 1000, interval_ms=2000)) is None
        assert estimator.rate == 600.0

    @pytest.mark.parametrize(
        "arguments", [{"proportional": -1.0}, {"min_rate": 0.0}, {"max_rate": 99.0}]
    )
    def test_what_makes_no_sense_is_refused_before_any_batch(self, arguments):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            Pid(**arguments)

    def test_an_estimate_that_is_no_number_is_none(self):
        estimator = Pid(proportional=1e308, integral=1e308)
        estimator.completed(seen(1.0, 5, 10_000))
        estimator.completed(seen(2.0, 10**12, 1, scheduling_ms=10**9))
        assert estimator.rate is None
