import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.durations import in_units, parse_duration, span


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (10, 10.0),
        (0.5, 0.5),
        (timedelta(minutes=2), 120.0),
        ("10", 10.0),
        ("250us", 0.00025),
        ("500ms", 0.5),
        ("10s", 10.0),
        ("10 sec", 10.0),
        ("1 second", 1.0),
        ("3 seconds", 3.0),
        ("2m", 120.0),
        ("2min", 120.0),
        ("1 minute", 60.0),
        ("2 minutes", 120.0),
        ("1h", 3600.0),
        ("1 hour", 3600.0),
        ("2 hours", 7200.0),
        ("1d", 86400.0),
        ("1 day", 86400.0),
        ("2 days", 172800.0),
        ("1.5 min", 90.0),
        ("  10S ", 10.0),
        ("10 MIN", 600.0),
    ],
)
def test_durations_are_read_as_people_and_spark_write_them(written, seconds):
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        *("", "s", "10 parsecs", "-1s", "1e3s", "10s 5ms", "ten", "1,5s", ".5s", "5.s", "\u0661s"),
        *(None, True, False, [], {}, b"10s", 1j, 10**400),
    ],
)
def test_anything_else_is_refused_with_an_example_of_what_is_right(written):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(written)


@given(st.integers(0, 10**9), st.sampled_from(["us", "ms", "s", "min", "h", "d"]))
def test_text_and_timedelta_agree(number, unit):
    words = {"us": "microseconds", "ms": "milliseconds", "s": "seconds"} | {
        "min": "minutes",
        "h": "hours",
        "d": "days",
    }
    if number * {"d": 86400, "h": 3600, "min": 60}.get(unit, 1) > 10**12:
        number %= 10**6
    expected = timedelta(**{words[unit]: number}).total_seconds()
    assert parse_duration(f"{number}{unit}") == pytest.approx(expected, rel=1e-9)


@given(st.text() | st.binary() | st.floats() | st.integers() | st.none() | st.booleans())
def test_whatever_is_given_the_answer_is_a_number_or_a_value_error(value):
    try:
        seconds = parse_duration(value)
    except ValueError:
        return
    assert type(seconds) is float


@pytest.mark.parametrize(
    "interval",
    [0, -1, "0s", timedelta(0), timedelta(seconds=-1), math.nan, math.inf, "9" * 400, 10**400],
)
def test_a_field_takes_only_positive_finite_durations(interval):
    with pytest.raises(DeclarationError, match=r"^RatioPolicy: interval = "):
        RatioPolicy(interval=interval)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (7 * 86400.0, "7 d"),
        (7200.0, "2 h"),
        (5400.0, "90 min"),
        (61.0, "61 s"),
        (0.5, "0.5 s"),
        (0.0, "0 s"),
    ],
)
def test_a_duration_is_told_in_its_largest_unit(seconds: float, said: str) -> None:
    assert in_units(seconds) == said
    assert parse_duration(said) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0 s"), (4.4, "4 s"), (99.0, "99 s"), (100.0, "2 min"), (3600.0, "60 min")),
        *((6000.0, "2 h"), (5 * 3600.0, "5 h"), (359999.0, "100 h"), (360000.0, "4 d")),
        *((99.5 * 3600.0, "100 h"), (1000.5 * 86400.0, "1000 d")),
        (99.49999 * 3600.0, "99 h"),
    ],
)
def test_times_as_people_say_them(seconds, text):
    assert span(seconds) == text
