"""Where the ratio policy decides as Spark's own allocation does, to the executor."""

from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.steps import round_half_up
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.status import Query
from tests.autoscale import reference
from tests.autoscale.deciding import decided, target
from tests.fakes import QUERY, batch, status, structured


class TestRounding:
    @pytest.mark.parametrize(
        ("value", "rounded"),
        [
            (0.0, 0),
            (0.49, 0),
            (0.5, 1),
            (1.5, 2),
            (2.5, 3),
            (3.5, 4),
            (2.4999, 2),
            (1e9 + 0.5, 10**9 + 1),
        ],
    )
    def test_halves_go_up_as_javas_do(self, value, rounded):
        assert round_half_up(value) == rounded

    @given(st.floats(0, 2**53))
    @example(0.49999999999999994)
    @example(1.4999999999999998)
    @example(2.0**52 + 1)
    def test_it_agrees_with_exact_arithmetic(self, value):
        assert round_half_up(value) == reference.half_up(Fraction(value))

    @given(st.integers(0, 10**9), st.integers(1, 10**6))
    def test_it_agrees_on_every_ratio_of_milliseconds(self, milliseconds, interval):
        value = milliseconds / interval
        assert round_half_up(value) == reference.half_up(Fraction(value))


executor_counts = st.integers(1, 60)
intervals_ms = st.integers(1, 10**6)


class TestAgainstSpark:
    """With everything as Spark assumes it, the decision is Spark's; but none is removed that would
    be added again."""

    @given(
        processing_ms=st.lists(st.integers(0, 2 * 10**6), min_size=1, max_size=6),
        failed_ms=st.lists(st.integers(0, 10**7), max_size=3),
        interval_ms=intervals_ms,
        low=executor_counts,
        above_low=st.integers(0, 20),
        below_high=st.none() | st.integers(0, 20),
        down=st.floats(0.01, 4),
        between=st.floats(0.01, 4),
    )
    def test_the_same_executors_are_asked_for(
        self, processing_ms, failed_ms, interval_ms, low, above_low, below_high, down, between
    ):
        # Outside its bounds, Spark's manager stays where it is: one of its defects, mended here.
        registered, up = low + above_low, down + between
        high = None if below_high is None else registered + below_high
        stream = structured(
            autoscale=RatioPolicy(
                min_executors=low,
                max_executors=high,
                scale_up_ratio=up,
                scale_down_ratio=down,
            )
        )
        r = float(reference.ratio(processing_ms, interval_ms))  # a double, in Spark as well
        report = status(
            registered=registered,
            requested=registered,
            queries=(Query(QUERY, active=True, interval_ms=interval_ms),),
            batches=(
                *(batch(ms / 1000) for ms in processing_ms),
                *(batch(ms / 1000, failed=True) for ms in failed_ms),
            ),
        )
        expected = reference.executors_after(
            Fraction(r),
            registered=registered,
            up=Fraction(up),
            down=Fraction(down),
            low=low,
            high=high,
        )
        if expected == registered - 1:
            # The one exception. Where floats would decide, either is right.
            then = Fraction(r) * registered / expected
            assume(abs(then - Fraction(up)) > Fraction(1, 10**6))
            expected = registered if then > Fraction(up) else expected
        evaluation = evaluate(report, window=60.0, batch_interval=1.0)
        decision = stream.autoscale.decide(stream.bounds, evaluation)
        assert target(decision, registered) == (registered if expected is None else expected)

    @given(
        ratio=st.floats(0, 50),
        registered=st.integers(1, 30),
        requested=st.integers(1, 30),
        low=st.integers(1, 10),
        span=st.integers(0, 20),
    )
    def test_whatever_is_outstanding_is_overridden(self, ratio, registered, requested, low, span):
        bounds = Bounds(low, low + span, low)
        requested = bounds.clamp(requested)
        expected = reference.executors_after(
            Fraction(ratio),
            registered=registered,
            up=Fraction(0.9),
            down=Fraction(0.3),
            low=low,
            high=bounds.maximum,
        )
        decision = decided(bounds, ratio=ratio, registered=registered, requested=requested)
        if expected is not None and ratio > 0.3:
            assert target(decision, requested) == bounds.clamp(expected)
        elif expected is not None:
            # Spark kills one more; here more may be on their way out already.
            assert target(decision, requested) == min(bounds.clamp(expected), requested)
        elif ratio <= 0.3:
            # Spark removes nobody at the minimum, and here what has not come yet is called off.
            assert target(decision, requested) == low
        else:
            assert target(decision, requested) == requested
