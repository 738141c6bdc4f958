"""What a scale-up has brought, by the work of batches before and after."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.effect import ScaleUp, Work, gain

sizes = st.floats(1, 1e6)
some = st.integers(1, 50)


def test_all_that_it_should_is_one_and_nothing_is_zero() -> None:
    found = gain(Work(1000, 8000), Work(1000, 4000), 4, 8)
    assert (found.least, found.most) == (1, 1)
    found = gain(Work(1000, 8000), Work(1000, 8000), 4, 8)
    assert (found.least, found.most, found.text) == (0, 0, "0%")


def test_places_that_receivers_take_are_not_counted() -> None:
    # From 2 to 4 for batches, of 4 and 6.
    assert gain(Work(1000, 8000), Work(1000, 4000), 4, 6, pinned=2).most == 1


def test_slower_batches_of_the_same_size_are_no_gain() -> None:
    assert gain(Work(1000, 8000), Work(1000, 9000), 4, 8).text == "0%"


@given(
    before=sizes, after=sizes, fixed=st.floats(0, 1e5), each=st.floats(0.01, 100), n=some, more=some
)
def test_the_true_gain_lies_between_the_two(
    before: float, after: float, fixed: float, each: float, n: int, more: int
) -> None:
    """Batches cost something whatever they have, and something a record, which executors share."""
    assume(n < n + more <= 60)
    m = n + more

    def ms(records: float, executors: int) -> float:
        return fixed + each * records / executors

    found = gain(Work(before, ms(before, n)), Work(after, ms(after, m)), n, m)
    for size in (before, after):  # the speed-up on either size of batch
        true = (ms(size, n) / ms(size, m) - 1) / (m / n - 1)
        assert found.least <= true + 1e-6 * abs(true) + 1e-6
        assert found.most >= true - 1e-6 * abs(true) - 1e-6


@given(before=st.tuples(sizes, sizes), after=st.tuples(sizes, sizes), n=some, more=some)
def test_a_gain_is_a_number(
    before: tuple[float, float], after: tuple[float, float], n: int, more: int
) -> None:
    found = gain(Work(*before), Work(*after), n, n + more)
    assert math.isfinite(found.least) and found.least <= found.most and found.text


@given(st.builds(ScaleUp, *(st.floats(0, 1e9) for _ in range(8))))
def test_a_scale_up_is_remembered_as_it_is(up: ScaleUp) -> None:
    assert ScaleUp.of({**up.remembered, "capacity": 5.0}) == up


def test_a_part_of_what_is_remembered_is_nothing() -> None:
    up = ScaleUp(4, 1000, 8000, 1.6, 100, 1)
    for key in up.remembered:
        assert ScaleUp.of({k: v for k, v in up.remembered.items() if k != key}) is None
