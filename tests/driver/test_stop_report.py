"""What is told of a driver that was asked to stop."""

import json
from dataclasses import asdict

import pytest

from dagster_sparkscale.driver.ending.end_report import Stopped, StoppedQuery

DRAINED = StoppedQuery("clicks", True, 41)
CUT = StoppedQuery("orders", False, 16)
UNKNOWN = StoppedQuery("returns")


def stopped(
    *queries: StoppedQuery, graceful: bool = True, ended_itself: bool = True, at: float = 1.5
) -> Stopped:
    return Stopped(at, graceful, ended_itself, queries)


@pytest.mark.parametrize(
    ("how", "clean"),
    [
        (stopped(), True),
        (stopped(DRAINED, DRAINED), True),
        (stopped(DRAINED, CUT), False),
        (stopped(DRAINED, UNKNOWN), False),
        (stopped(DRAINED, ended_itself=False), False),
        (stopped(graceful=False, ended_itself=False), False),
    ],
)
def test_an_end_is_clean_where_nothing_was_cut_as_far_as_can_be_told(
    how: Stopped, clean: bool
) -> None:
    assert how.clean is clean


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            stopped(DRAINED, CUT, UNKNOWN),
            "the program has ended by itself; clicks: drained, batch 41 done; "
            "orders: cut, batch 16 done; returns: unknown how, no batch done",
        ),
        (stopped(ended_itself=False), "the program did not end in time and was ended"),
        (stopped(graceful=False, ended_itself=False), "the program was ended at once"),
    ],
)
def test_it_is_told_in_one_line(how: Stopped, words: str) -> None:
    assert how.in_words() == words


def test_it_is_written_by_names_that_never_change() -> None:
    assert json.loads(json.dumps(asdict(stopped(CUT)))) == {
        "at": 1.5,
        "graceful": True,
        "ended_itself": True,
        "queries": [{"name": "orders", "drained": False, "batch_id": 16, "repeats": False}],
        "sigterm": False,
    }
