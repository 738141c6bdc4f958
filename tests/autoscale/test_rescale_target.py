"""Which number of executors a request means, and which are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.rescale import RescaleRequest, target_of
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.bounds import Bounds
from tests.fakes import structured

BOUNDS = Bounds(minimum=2, maximum=8, initial=2)


def asked(target=None, delta=None, **fields) -> RescaleRequest:
    return RescaleRequest("clicks", target=target, delta=delta, **fields)


class TestTargetOf:
    def test_a_target_is_taken_as_it_is(self):
        assert target_of(asked(5), BOUNDS, registered=3) == 5

    @pytest.mark.parametrize(("delta", "target"), [(1, 5), (4, 8), (-1, 3), (-2, 2)])
    def test_a_delta_counts_from_the_registered(self, delta, target):
        assert target_of(asked(delta=delta), BOUNDS, registered=4) == target

    @pytest.mark.parametrize("target", [2, 8])
    def test_the_bounds_themselves_are_fine(self, target):
        assert target_of(asked(target), BOUNDS, registered=4) == target

    @pytest.mark.parametrize("target", [0, 3])
    def test_a_target_and_a_delta_are_refused(self, target):
        with pytest.raises(Refused, match=r"^target and delta: both given; give one"):
            target_of(asked(target, delta=1), BOUNDS, registered=4)

    def test_neither_is_refused(self):
        with pytest.raises(Refused, match=r"^target and delta: neither given; give one"):
            target_of(asked(), BOUNDS, registered=4)

    def test_a_delta_of_nothing_is_refused(self):
        with pytest.raises(Refused, match=r"^delta = 0: changes nothing"):
            target_of(asked(delta=0), BOUNDS, registered=4)

    @pytest.mark.parametrize("target", [1, 0, -5])
    def test_below_the_minimum_is_refused_with_what_to_do(self, target):
        with pytest.raises(Refused) as refused:
            target_of(asked(target), BOUNDS, registered=4)
        assert str(refused.value) == (
            f"target = {target}: 'clicks' has a minimum of 2; to run none, use the stop job; "
            "to go lower, change min_executors"
        )

    def test_above_the_maximum_is_refused_with_what_to_do(self):
        with pytest.raises(Refused) as refused:
            target_of(asked(9), BOUNDS, registered=4)
        assert str(refused.value) == (
            "target = 9: 'clicks' has a maximum of 8; to go higher, change max_executors and "
            "restart the stream"
        )

    def test_above_the_maximum_and_below_the_ceiling_a_pin_goes_without_a_restart(self):
        with pytest.raises(Refused) as refused:
            target_of(asked(9), replace(BOUNDS, ceiling=9), registered=4)
        assert str(refused.value).endswith(
            "; its driver can have 9: `sparkscale pin clicks 9` goes there without a restart"
        )
        with pytest.raises(Refused) as refused:
            target_of(asked(10), replace(BOUNDS, ceiling=9), registered=4)
        assert "pin" not in str(refused.value)

    def test_below_a_minimum_that_was_set_says_who_set_it(self):
        with pytest.raises(Refused, match=r"use the stop job; set by ann$"):
            target_of(asked(1), replace(BOUNDS, minimum_note="set by ann"), registered=4)

    def test_above_what_the_cores_admit_is_refused_with_the_reason_for_that_maximum(self):
        bounds = structured(executor_cores=2, spark_conf={"spark.cores.max": 8}).bounds
        with pytest.raises(Refused, match="maximum of 4; no maximum was declared, but 4 is all"):
            target_of(asked(5), bounds, registered=4)

    @pytest.mark.parametrize(("delta", "result"), [(5, 9), (-3, 1)])
    def test_a_delta_out_of_bounds_says_what_it_would_come_to(self, delta, result):
        with pytest.raises(Refused) as refused:
            target_of(asked(delta=delta), BOUNDS, registered=4)
        assert str(refused.value).startswith(f"delta = {delta} (from 4 registered to {result}): ")

    def test_without_a_maximum_any_number_is_fine(self):
        assert target_of(asked(10**6), Bounds(1, None, 1), registered=1) == 10**6

    @given(
        target=st.none() | st.integers(-5, 15),
        delta=st.none() | st.integers(-15, 15),
        registered=st.integers(0, 12),
        low=st.integers(1, 5),
        span=st.none() | st.integers(0, 8),
    )
    def test_the_answer_is_the_wanted_number_or_a_refusal(
        self, target, delta, registered, low, span
    ):
        bounds = Bounds(low, None if span is None else low + span, low)
        wanted = target if delta is None else registered + delta
        one = (target is None) != (delta is None)
        fine = one and delta != 0 and bounds.clamp(wanted) == wanted
        try:
            assert target_of(asked(target, delta), bounds, registered) == wanted
            assert fine
        except Refused as error:
            assert not fine
            assert str(error)
