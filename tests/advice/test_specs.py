"""Policies in a line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale import AutoscalePolicy, CapacityPolicy, DeclarationError, RatioPolicy
from dagster_sparkscale.advice.specs import in_python, policy_of, with_policy
from tests.advice.recorded import STREAM

DECLARED = RatioPolicy(max_executors=8, scale_down_ratio=0.5, interval="30s")


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("declared", DECLARED),
        (
            "declared:max_executors=3",
            RatioPolicy(max_executors=3, scale_down_ratio=0.5, interval=30),
        ),
        ("ratio", DECLARED),
        (
            "ratio: scale_up_ratio = 0.8 , scale_down_window=10min",
            RatioPolicy(
                max_executors=8,
                scale_up_ratio=0.8,
                scale_down_ratio=0.5,
                interval=30,
                scale_down_window=600,
            ),
        ),
        (
            "capacity:price_of_lateness=100",
            CapacityPolicy(max_executors=8, interval=30, price_of_lateness=100),
        ),
        ("capacity:max_executors=none", CapacityPolicy(interval=30)),
    ],
)
def test_it_has_what_is_declared_but_for_what_it_says(text: str, policy: AutoscalePolicy) -> None:
    assert policy_of(text, DECLARED) == policy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "ratoi",
            "policy = 'ratoi': must begin with one of 'declared', 'fixed', 'ratio', 'capacity'",
        ),
        ("", "policy = '': must begin with one of"),
        ("ratio:scale_up_ratio", "'scale_up_ratio' must be a field and its value, such as"),
        ("ratio:=3", "'=3' must be a field and its value"),
        ("ratio:scale_up=0.8", "RatioPolicy: scale_up: no such field"),
        ("ratio:scale_up_ratio=high", "scale_up_ratio = 'high': must be a number"),
        ("ratio:scale_up_ratio=0.4", "scale_up_ratio = 0.4"),
        ("capacity:price_of_lateness=-1", "price_of_lateness = -1: must be above 0"),
    ],
)
def test_what_there_is_not_is_named(text: str, says: str) -> None:
    with pytest.raises(DeclarationError) as error:
        policy_of(text, DECLARED)
    assert says in str(error.value)


@given(
    st.builds(
        RatioPolicy,
        max_executors=st.none() | st.integers(5, 50),
        scale_up_ratio=st.floats(0.6, 2),
        scale_down_ratio=st.floats(0.1, 0.5),
        interval=st.sampled_from([30, 60.0, "2min"]),
    )
    | st.builds(CapacityPolicy, price_of_lateness=st.floats(1, 1000))
)
def test_as_it_is_declared_it_is_python(policy: AutoscalePolicy) -> None:
    names = {"RatioPolicy": RatioPolicy, "CapacityPolicy": CapacityPolicy}
    assert eval(in_python(policy), names) == policy


def test_a_stream_has_another_policy_and_all_else_as_before() -> None:
    policy = CapacityPolicy(max_executors=5)
    other = with_policy(STREAM, policy)
    assert other.autoscale == policy
    assert other.bounds.maximum == 5
    assert with_policy(other, STREAM.autoscale) == STREAM  # type: ignore[arg-type]
