"""Between which numbers of executors a declared stream may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.declaration import DeclarationError
from tests.declare.refusing import refusal
from tests.fakes import dstream, scaled, structured


class TestBounds:
    def test_a_policys_numbers_are_the_bounds(self):
        stream = scaled(min_executors=2, max_executors=8, initial_executors=4)
        assert stream.bounds == Bounds(minimum=2, maximum=8, initial=4, ceiling=8)

    def test_a_new_driver_starts_with_the_minimum_unless_told_otherwise(self):
        assert scaled(min_executors=3).bounds == Bounds(minimum=3, maximum=None, initial=3)

    def test_a_stream_without_a_policy_starts_with_its_executors(self):
        assert structured(executors=4).bounds == Bounds(minimum=1, maximum=None, initial=4)

    def test_the_cores_of_the_application_are_a_ceiling_below_the_declared_maximum(self):
        stream = structured(
            executor_cores=2,
            spark_conf={"spark.cores.max": 9},
            autoscale=RatioPolicy(max_executors=10),
        )
        assert stream.bounds.maximum == 4
        assert stream.bounds.note == (
            "a maximum of 10 was declared, but 4 is all it can reach: "
            "spark.cores.max 9 / executor_cores 2"
        )

    def test_the_cores_of_the_application_are_the_maximum_where_none_is_declared(self):
        bounds = structured(spark_conf={"spark.cores.max": "6"}).bounds
        assert bounds.maximum == 6
        assert bounds.note.startswith("no maximum was declared, but 6 is all it can reach")

    def test_a_declared_maximum_that_the_cores_admit_stands_without_a_note(self):
        bounds = structured(
            spark_conf={"spark.cores.max": "6"}, autoscale=RatioPolicy(max_executors=6)
        ).bounds
        assert (bounds.maximum, bounds.note) == (6, None)

    def test_the_initial_number_is_lowered_to_what_the_cores_admit(self):
        bounds = structured(
            spark_conf={"spark.cores.max": "6"}, autoscale=RatioPolicy(initial_executors=10)
        ).bounds
        assert bounds.initial == 6

    @pytest.mark.parametrize("cores", ["", "0", "-1", "many", "4.0", "²", "true", "9" * 10])
    def test_cores_that_are_no_number_are_refused(self, cores):
        text = refusal(structured, spark_conf={"spark.cores.max": cores})
        assert "spark.cores.max" in text
        assert "must be a whole number above 0" in text

    def test_cores_below_the_minimum_are_refused(self):
        text = refusal(
            structured,
            executor_cores=4,
            spark_conf={"spark.cores.max": "11"},
            autoscale=RatioPolicy(min_executors=3),
        )
        assert "spark.cores.max = 11: must be at least 12, for 3 executor(s) of 4 core(s)" in text

    @given(st.integers(-5, 30), st.integers(1, 10), st.none() | st.integers(0, 10))
    def test_clamping_lands_inside_and_leaves_alone_what_is_inside(self, number, low, span):
        bounds = Bounds(low, None if span is None else low + span, low)
        clamped = bounds.clamp(number)
        assert clamped >= bounds.minimum
        assert bounds.maximum is None or clamped <= bounds.maximum
        inside = number >= low and (bounds.maximum is None or number <= bounds.maximum)
        assert (clamped == number) == inside

    @given(
        cores=st.none() | st.integers(1, 40),
        executor_cores=st.integers(1, 4),
        low=st.none() | st.integers(1, 8),
        high=st.none() | st.integers(1, 8),
        initial=st.none() | st.integers(1, 8),
        receivers=st.integers(0, 6),
    )
    def test_every_stream_that_is_accepted_can_run_within_its_bounds(
        self, cores, executor_cores, low, high, initial, receivers
    ):
        try:
            stream = dstream(
                receivers=receivers,
                executor_cores=executor_cores,
                spark_conf={} if cores is None else {"spark.cores.max": cores},
                autoscale=RatioPolicy(
                    min_executors=low, max_executors=high, initial_executors=initial
                ),
            )
        except DeclarationError:
            return
        bounds = stream.bounds
        assert 1 <= bounds.minimum <= bounds.initial
        assert bounds.maximum is None or bounds.initial <= bounds.maximum
        assert bounds.maximum is None or high is None or bounds.maximum <= high
        assert cores is None or bounds.maximum * executor_cores <= cores
        assert bounds.minimum * executor_cores > receivers
        assert low is None or bounds.minimum == low


class TestReceivers:
    @pytest.mark.parametrize(
        ("receivers", "cores", "minimum"),
        # As Spark, max(1, receivers); one more where those would have no core left for a batch.
        [(0, 1, 1), (1, 1, 2), (3, 1, 4), (1, 2, 1), (2, 2, 2), (4, 4, 4), (5, 2, 5)],
    )
    def test_the_minimum_follows_the_receivers(self, receivers, cores, minimum):
        stream = dstream(receivers=receivers, executor_cores=cores)
        assert stream.bounds.minimum == stream.bounds.initial == minimum

    def test_a_declared_minimum_is_taken_if_it_leaves_a_core(self):
        stream = dstream(receivers=4, executor_cores=4, autoscale=RatioPolicy(min_executors=2))
        assert stream.bounds.minimum == 2

    def test_a_declared_minimum_that_leaves_no_core_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(min_executors=4))
        assert "receivers = 4: would take every core of the minimum of 4 executor(s)" in text
        assert "raise autoscale.min_executors to 5" in text

    def test_a_maximum_below_what_the_receivers_need_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(max_executors=4))
        assert "autoscale.max_executors = 4: must be at least 5" in text

    def test_an_initial_number_below_what_the_receivers_need_is_refused(self):
        text = refusal(dstream, receivers=4, autoscale=RatioPolicy(initial_executors=3))
        assert "autoscale.initial_executors = 3: must be at least 5" in text

    def test_executors_below_what_the_receivers_need_are_refused(self):
        assert "executors = 2: must be at least 5" in refusal(dstream, receivers=4, executors=2)
        assert dstream(receivers=4, executors=5).bounds.initial == 5

    def test_receivers_cannot_be_negative(self):
        assert "receivers = -1: " in refusal(dstream, receivers=-1)
