"""When nothing is recommended, what is told beside what is, and how numbers are shown."""

import math

import pytest

from dagster_sparkscale.backpressure.advice import rounded, shown
from dagster_sparkscale.quantities import number
from tests.backpressure.advising import RATES, advised
from tests.backpressure.histories import CLICKS, minutes


def test_without_limits_there_is_nothing_to_retune():
    assert advised(values={}).why_not == "it has no limits that could be retuned"


def test_without_enough_history_nothing_is_recommended():
    found = advised(minutes(10))
    assert found.recommended == () and found.why_not.startswith("not enough history: 0.1 h")


def test_what_was_left_alone_is_told_beside_what_is_recommended():
    found = advised(values={CLICKS: None, **RATES}, rated=None)
    assert [each.limit for each in found.recommended] == [CLICKS]
    assert found.notes[0].startswith("backpressure rates: left as they are")


@pytest.mark.parametrize(
    ("value", "down"),
    [
        *((0, 0), (-1, 0), (math.inf, 0), (math.nan, 0)),
        *((1, 1), (9.99, 9.9), (10, 10), (99.9, 99), (100, 100), (109, 100), (119_999, 110_000)),
        *((0.0123, 0.012), (1e-9, 1e-9), (9000, 9000)),
    ],
)
def test_down_to_two_digits(value, down):
    assert rounded(value) == pytest.approx(down, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "no limit"), (12_345_678, "12,345,678"), (100, "100"), (99.94, "99.9"), (0.5, "0.5")],
)
def test_numbers_for_people(value, text):
    assert shown(value) == text
    assert value is None or number(value) == text
