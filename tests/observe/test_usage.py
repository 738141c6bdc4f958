"""What executors cost, day by day."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.usage import GAP, Usage, usage_by_day

DAY = 86400
NOON = 20_000 * DAY + DAY // 2


def test_an_hour_of_two_executors_is_two_executor_hours() -> None:
    minutes = [Minute(NOON + 60 * n, registered=2) for n in range(61)]
    (day,) = usage_by_day(minutes)
    assert (day.executor_hours, day.measured_hours) == pytest.approx((2.0, 1.0))
    assert (day.day, day.most, day.fixed(5)) == (20_000, 2, pytest.approx(5.0))


def test_what_was_not_measured_is_no_time_without_executors() -> None:
    at = [0, 60, 120, 180, 1000, 1060]
    registered = [4, 4, None, 4, 4, 4]
    minutes = [Minute(NOON + t, registered=n) for t, n in zip(at, registered, strict=True)]
    (day,) = usage_by_day(minutes)
    # The minute that was not measured, and the long gap, count for nothing.
    assert day.measured_hours == pytest.approx(180 / 3600)
    assert day.executor_hours == pytest.approx(4 * 180 / 3600)


def test_no_executors_are_measured_as_none() -> None:
    (day,) = usage_by_day([Minute(NOON, registered=0), Minute(NOON + 60, registered=0)])
    assert (day.executor_hours, day.measured_hours, day.most) == (0.0, pytest.approx(1 / 60), 0)


def test_each_day_has_its_own() -> None:
    late = 20_001 * DAY - 120
    minutes = [Minute(late + 60 * n, registered=3) for n in range(5)]
    assert [(d.day, round(d.executor_hours * 60)) for d in usage_by_day(minutes)] == [
        (20_000, 3),
        (20_001, 9),
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.none() | st.integers(0, 50)), min_size=2, max_size=60
    )
)
def test_minute_by_minute_comes_to_the_same_as_read_back(steps) -> None:
    at, minutes = NOON + DAY // 3, []
    for step, registered in steps:
        at += step
        minutes.append(Minute(at, registered=registered))
    days: dict[int, Usage] = {}
    usage, before = Usage(), minutes[0].at
    for minute in minutes[1:]:
        usage = usage.after(minute, before)
        days[usage.day], before = usage, minute.at
    assert usage_by_day(minutes) == list(days.values())
    counted = [
        (b.at - a.at, b.registered)
        for a, b in pairwise(minutes)
        if b.registered is not None and b.at - a.at <= GAP
    ]
    total = sum(day.executor_hours for day in days.values())
    assert total == pytest.approx(sum(s * n for s, n in counted) / 3600)
    assert all(day.executor_hours <= day.fixed() + 1e-9 for day in days.values())


def test_a_day_is_remembered_in_whole_numbers() -> None:
    """The cursor is stored each minute, with a day of each stream."""
    at = {0: 2, 61: 3, 122: 5}
    (day,) = usage_by_day(Minute(NOON + t, registered=n) for t, n in at.items())
    assert vars(day) == {
        "day": 20_000,
        "executor_seconds": 3 * 61 + 5 * 61,
        "measured_seconds": 122,
        "most": 5,
    }
