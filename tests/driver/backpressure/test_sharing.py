"""What a query can take is shared among its sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.sharing import Want, share


def test_one_source_has_all():
    assert share(900, {"a": Want(10, True)}, 100) == {"a": 900}
    assert share(900, {"a": Want(10, False)}, 100) == {"a": 900}, "what nobody else wants"


def test_sources_that_have_taken_nothing_yet_have_the_same():
    assert share(900, {"a": Want(0, True), "b": Want(0, True), "c": Want(0, False)}, 100) == {
        "a": 400,
        "b": 400,
        "c": 100,
    }
    assert share(900, {"a": Want(0, False), "b": Want(0, False)}, 100) == {"a": 450, "b": 450}


def test_one_that_does_not_take_what_it_may_leaves_it_to_the_others():
    shares = share(1000, {"busy": Want(300, True), "calm": Want(200, False)}, 100)
    assert shares == {"busy": 700, "calm": 300}


def test_one_that_begins_to_want_more_comes_to_have_as_much():
    had = {"old": 900.0, "new": 100.0}
    for _ in range(20):
        had = share(1000, {name: Want(rate, True) for name, rate in had.items()}, 100)
    assert had["old"] == pytest.approx(500, rel=0.02)
    assert sum(had.values()) == pytest.approx(1000)


def test_where_nobody_wants_more_there_is_room_for_each():
    shares = share(1000, {"a": Want(100, False), "b": Want(300, False)}, 10)
    assert sum(shares.values()) == pytest.approx(1000)
    assert 100 < shares["a"] < shares["b"]


def test_each_has_the_least_even_where_that_is_too_much_together():
    assert share(150, {"a": Want(100, True), "b": Want(100, True)}, 100) == {"a": 100, "b": 100}
    assert share(0, {"a": Want(100, False), "b": Want(9, False)}, 100) == {"a": 100, "b": 100}


def test_nobody_has_more_than_the_most():
    shares = share(1000, {"a": Want(900, True), "b": Want(100, True)}, 50, most=600)
    assert shares == {"a": 600, "b": 400}
    assert share(5000, {"a": Want(9, True), "b": Want(9, True)}, 50, 600) == {"a": 600, "b": 600}


def test_of_no_sources_there_is_nothing_to_share():
    assert share(1000, {}, 100) == {}


wants = st.dictionaries(
    st.text(max_size=2),
    st.builds(Want, st.floats(0, 1e9), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(wants, st.floats(0, 1e10), st.floats(0.1, 1000), st.none() | st.floats(1000, 1e8))
def test_bounds_hold_and_nothing_is_given_out_twice(some, total, least, most):
    shares = share(total, some, least, most)
    assert shares.keys() == some.keys()
    top = most if most is not None else float("inf")
    assert all(least * (1 - 1e-9) <= each <= top * (1 + 1e-9) for each in shares.values())
    assert sum(shares.values()) <= max(total, least * len(some)) * (1 + 1e-6)
    if total >= least * len(some) and any(want.more for want in some.values()) and most is None:
        # Whoever wants more has all that others leave.
        assert sum(shares.values()) == pytest.approx(total)
