"""What stored minutes and reports of rescales add up to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.usage import usage_by_day
from dagster_sparkscale.serve.tally import BUCKETS, Tally

MINUTES = st.lists(
    st.builds(
        Minute,
        at=st.integers(1, 3 * 86400),
        state=st.sampled_from(["running", "failed"]),
        registered=st.none() | st.integers(0, 5),
        decision=st.none() | st.just("scale to 3"),
    ),
    unique_by=lambda minute: minute.at,
).map(lambda minutes: sorted(minutes, key=lambda minute: minute.at))


@given(MINUTES, st.integers(0, 10))
def test_minutes_come_to_what_usage_says_however_they_are_read(
    minutes: list[Minute], cut: int
) -> None:
    tally = Tally()
    tally.add_minutes(minutes[:cut])
    tally.add_minutes(minutes[: cut + 3])  # some were stored twice
    tally.add_minutes(minutes[cut:])
    days = usage_by_day(minutes)
    assert tally.executor_seconds == sum(day.executor_seconds for day in days)
    assert tally.measured_seconds == sum(day.measured_seconds for day in days)
    assert tally.changes == sum(1 for minute in minutes if minute.decision is not None)
    running = [m for m in minutes if m.decision is None and m.state == "running"]
    assert (tally.holds, tally.minutes) == (len(running), len(minutes))


@pytest.mark.parametrize("took", [10**400, float("nan"), float("inf"), -1, "3", 1e300])
def test_what_is_no_duration_is_in_no_bucket(took: object) -> None:
    tally = Tally()
    tally.add_rescale({"ending": "reached", "seconds": took})
    assert (tally.rescales, tally.durations, tally.seconds) == ({"reached": 1}, {}, {})


@given(st.lists(st.none() | st.floats(0, 1e4)))
def test_every_duration_that_was_measured_is_in_one_bucket(took: list[float | None]) -> None:
    tally = Tally()
    for seconds in took:
        tally.add_rescale({"ending": "reached", "seconds": seconds})
    measured = [seconds for seconds in took if seconds is not None]
    assert sum(tally.rescales.values()) == len(took)
    for bound in BUCKETS:
        within = sum(n for (_, to), n in tally.durations.items() if to <= bound)
        assert within == sum(1 for seconds in measured if seconds <= bound)
    assert tally.seconds.get("reached", 0.0) == sum(measured)
