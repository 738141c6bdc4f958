"""Spark's estimator: by hand, and against Spark's own class in a JVM."""

import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.pid import Pid, PidRateEstimator
from dagster_sparkscale.driver.backpressure.seen import Seen
from tests.waiting import HANGS

History = list[tuple[int, int, int, int]]
"""(time, records, processing delay, scheduling delay), all times in milliseconds."""


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

    def test_it_never_falls_below_the_least(self):
        estimator = PidRateEstimator(1000, min_rate=100.0)
        estimator.compute(1000, 500, 1000, 0)
        assert estimator.compute(2000, 10, 1000, 0) == 100.0

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


def seen(at: float, records: int, processing_ms: int, **more: Any) -> Seen:
    return Seen(at, records, processing_ms, **{"interval_ms": 1000} | more)


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


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark's classes, and no Spark running in it."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(HANGS)


def sparks(jvm: Any, *arguments: Any) -> Any:
    return jvm.org.apache.spark.streaming.scheduler.rate.PIDRateEstimator(*arguments)


def bits(rate: float | None) -> bytes | None:
    return None if rate is None else struct.pack(">d", rate)


weights = st.floats(0.0, 3.0) | st.sampled_from([0.0, 1.0, 0.2])
counts = st.integers(0, 5) | st.integers(0, 10**7) | st.integers(0, 2**62)
delays = st.integers(-5, 5) | st.integers(0, 100_000) | st.integers(0, 2**62)
times = st.integers(-2, 40).map(lambda n: n * 500) | st.integers(10**12, 10**12 + 10**6)
histories = st.lists(st.tuples(times | st.integers(0, 2**62), counts, delays, delays), max_size=25)
intervals = st.integers(1, 100_000)
least = st.floats(1e-9, 1e9, exclude_min=True)


@st.composite
def steady(draw: st.DrawFn) -> History:
    """A batch after the other, as streams have them."""
    waits = st.integers(0, 5000)
    moves = draw(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 50_000), waits)))
    return [(1000 * n, records, took, waited) for n, (took, records, waited) in enumerate(moves, 1)]


@pytest.mark.spark
class TestAgainstSpark:
    @settings(
        max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(intervals, weights, weights, weights, least, histories | steady())
    @example(1000, 1.0, 0.2, 0.0, 100.0, [(1000, 20_000, 4000, 0), (5000, 20_000, 4000, 3000)])
    def test_every_estimate_is_the_same_double(
        self, jvm, interval, proportional, integral, derivative, min_rate, history: History
    ):
        arguments = (interval, proportional, integral, derivative, min_rate)
        ours, theirs = PidRateEstimator(*arguments), sparks(jvm, *arguments)
        for batch in history:
            found = theirs.compute(*batch)
            expected = found.get() if found.isDefined() else None
            assert bits(ours.compute(*batch)) == bits(expected), batch

    @pytest.mark.parametrize(
        "arguments",
        [
            *((interval, 1.0, 0.2, 0.0, 100.0) for interval in (-1, 0, 1)),
            *((1000, weight, 0.2, 0.0, 100.0) for weight in (-1e-9, 0.0, math.nan)),
            *((1000, 1.0, weight, 0.0, 100.0) for weight in (-1e-9, 0.0, math.nan)),
            *((1000, 1.0, 0.2, weight, 100.0) for weight in (-1e-9, 0.0, math.nan)),
            *((1000, 1.0, 0.2, 0.0, rate) for rate in (-1.0, 0.0, 1e-9, math.nan)),
        ],
    )
    def test_the_same_arguments_are_refused(self, jvm, arguments):
        from py4j.protocol import Py4JJavaError

        try:
            sparks(jvm, *arguments)
        except Py4JJavaError as refused:
            assert "requirement failed" in str(refused.java_exception)
            with pytest.raises(ValueError, match="must be"):
                PidRateEstimator(*arguments)
        else:
            PidRateEstimator(*arguments)
