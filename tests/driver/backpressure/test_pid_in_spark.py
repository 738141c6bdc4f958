"""Spark's estimator beside Spark's own class in a JVM: the same numbers, bit by bit."""

import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.pid import PidRateEstimator
from tests.waiting import HANGS

pytestmark = pytest.mark.spark

History = list[tuple[int, int, int, int]]
"""(time, records, processing delay, scheduling delay), all times in milliseconds."""


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
