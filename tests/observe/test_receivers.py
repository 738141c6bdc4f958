"""Where receivers run, and which were away, in numbers and words."""

from dataclasses import replace

import pytest

from dagster_sparkscale.observe.receivers import (
    active,
    away,
    in_words,
    missing,
    receiver_of,
    relaunched_since,
    rows,
    spread,
)
from dagster_sparkscale.observe.status import Executor, Receiver, Relaunch
from dagster_sparkscale.quantities import number
from tests.fakes import status

HERE, LOST = Receiver(0, executor="1"), Receiver(1, error="refused")
TWO = status(executors=(Executor("1", "h", 2), Executor("2", "h", 2)), receivers=(HERE, LOST))
GONE = Relaunch(1, "executor lost", "7", began_at=1930.0)


def test_those_that_run_are_counted_and_found() -> None:
    assert (active(TWO), away(TWO), receiver_of(TWO, 1)) == (1, (LOST,), LOST)
    assert receiver_of(TWO, 2) is None
    assert spread(TWO) == "[1, 0]"


def test_what_can_t_be_told_is_no_number() -> None:
    untold = replace(TWO, receivers=None)
    assert (active(untold), away(untold), receiver_of(untold, 0)) == (None, (), None)
    assert spread(untold) is None
    assert missing(untold, 0, 0) is None


def test_an_executor_that_is_not_told_of_is_counted_too() -> None:
    there = (*(TWO.receivers or ()), Receiver(2, executor="9"), Receiver(3, executor="9"))
    assert spread(replace(TWO, receivers=there)) == "[2, 1, 0]"


@pytest.mark.parametrize(
    ("relaunches", "patience", "at_start", "said"),
    [
        ((GONE,), 60, 0, "receiver 1 has run nowhere for 70 s (refused)"),
        ((GONE,), 70, 0, None),
        # One that has never run has longer.
        ((), 0, 999, "receiver 1 has run nowhere for 1000 s (refused)"),
        ((), 0, 1000, None),
        ((replace(GONE, to_executor="2"),), 0, 1000, None),
    ],
)
def test_one_that_is_away_for_long_is_missing(
    relaunches: tuple[Relaunch, ...], patience: float, at_start: float, said: str | None
) -> None:
    assert missing(replace(TWO, relaunches=relaunches), patience, at_start) == said


def test_one_that_failed_of_nothing_is_just_missing() -> None:
    quiet = replace(TWO, receivers=(Receiver(1),), relaunches=(GONE,))
    assert missing(quiet, 60, 0) == "receiver 1 has run nowhere for 70 s"


def test_what_was_over_before_is_not_told_again_and_what_was_not_is() -> None:
    over = replace(GONE, to_executor="2", away_seconds=3.0)
    again = replace(GONE, began_at=1940.0)
    before = replace(TWO, relaunches=(over, again))
    now = replace(TWO, relaunches=(over, replace(again, to_executor="2"), GONE))
    assert relaunched_since(before, now) == (replace(again, to_executor="2"),)
    assert relaunched_since(replace(TWO, relaunches=()), now) == now.relaunches


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "receiver 1: executor 7 -> runs nowhere (executor lost)"),
        (
            {"to_executor": "2", "away_seconds": 3.456},
            "receiver 1: executor 7 -> executor 2 (executor lost, away for 3.46 s)",
        ),
        (
            {"to_executor": "2", "wanted": "3", "cause": "move", "from_executor": None},
            "receiver 1: nowhere -> executor 2 (move, sent to 3; for how long it was away is not "
            "known)",
        ),
    ],
)
def test_what_became_of_one_is_a_line(fields: dict[str, object], said: str) -> None:
    assert in_words(replace(GONE, **fields)) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "said"),
    [(1234.5, "1,234"), (100.4, "100"), (100.0, "100"), (99.96, "100"), (0.25, "0.25")],
)
def test_rates_have_as_many_digits_as_mean_something(rate: float, said: str) -> None:
    assert number(rate) == said


def test_what_is_not_known_is_none_in_a_row() -> None:
    [row] = rows([GONE])
    assert (row["to_executor"], row["away_seconds"], row["from_executor"]) == (None, None, "7")
    [row] = rows([replace(GONE, to_executor="2", away_seconds=1.23456)])
    assert row["away_seconds"] == 1.235
