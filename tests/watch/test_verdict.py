"""How a stream is, in one word, and that it is the same word everywhere."""

from dataclasses import replace

import pytest
from hypothesis import given

from dagster_sparkscale.markdown import escaped
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.watch.fleet.news import what_is, what_was
from dagster_sparkscale.watch.fleet.problems import problems
from dagster_sparkscale.watch.fleet.rows import STATES, in_trouble, row
from dagster_sparkscale.watch.fleet.text import markdown
from dagster_sparkscale.watch.fleet.verdict import (
    HEALTHY,
    OF_RUNNING,
    STUCK,
    VERDICTS,
    headline,
    lasting,
    verdict,
)
from dagster_sparkscale.watch.page.overview import sentence
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, scaled, status
from tests.watch.assessing import assess
from tests.watch.fleets import failing, line, rows

NOW = 2000.0


def of(**fields):
    """The row of a stream whose agent says this, ten minutes after its start."""
    said = status(**{"started_at": NOW - 600, "now": NOW} | fields)
    return row(assess(scaled(max_executors=8), Sighting("clicks", driver(), said), now=NOW))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "healthy"),
        ({"state": "failed"}, "failed"),
        ({"state": "failed", "gave_up": True, "looping": True}, "given up"),
        ({"looping": True}, "crash-looping"),
        ({"failing": (failing("running", True),), "busy": True}, "not answering"),
        ({"failing": (failing("running", True, mark="not stopped"),)}, "not stopped"),
        ({"failing": (failing("batches_completing", True),)}, "stuck"),
        ({"failing": (failing("batches_completing", True),), "busy": True}, "in maintenance"),
        ({"failing": (failing(),), "failed_batches": 1}, "failing"),
        ({"failing": (failing("below_maximum", True), failing())}, "not scaled"),
        ({"failing": (failing("below_maximum"), failing())}, "slow"),
        ({"failing": (failing("lag_within_limit"),), "throttled": True}, "slow"),
        ({"failing": (failing("below_maximum"),), "throttled": True}, "throttled"),
        ({"failing": (failing("below_maximum"), failing("no_data_lost"))}, "at its maximum"),
        ({"failing": (failing("no_data_lost"),), "idle": True}, "lost data"),
        ({"failing": (failing("declaration_applied"),)}, "healthy"),
        ({"warming": True, "idle": True}, "warming up"),
        ({"idle": True}, "idle"),
        ({"state": "starting", "failing": (failing(),)}, "starting"),
        ({"state": "stopped", "failing": (failing("running"),)}, "stopped"),
    ],
)
def test_the_first_that_applies_is_the_word(fields, word):
    assert verdict(line(**fields)) == word


@given(rows)
def test_there_is_always_one_of_those_that_are_documented(row):
    assert verdict(row) in VERDICTS
    # What comes and goes with the load is no news by itself.
    assert headline(row) in {*VERDICTS, "running"} - {*OF_RUNNING} | {"in maintenance"}


def test_each_word_is_there_once():
    assert len(VERDICTS) == len(set(VERDICTS))
    assert {*STATES} - {"running"} < {*VERDICTS}


@given(rows)
def test_page_and_fleet_begin_with_the_same_word(row):
    row = replace(row, stream="clicks", asset=("clicks",), reason="why")
    assert sentence(row, 1).startswith(verdict(row)) or row.reason.startswith(verdict(row))
    assert f"|{escaped(verdict(row))}" in markdown([row])


def test_a_stream_whose_batch_hangs_is_not_healthy_and_says_for_how_long():
    made = of(queries=(Query(QUERY, active=True, running_ms=360_000),))
    assert (verdict(made), lasting(made)) == (STUCK, "stuck for 6 min")
    assert sentence(made, 1).startswith("stuck for 6 min, ")
    (problem,) = problems(made, {}).values()
    assert problem.text.startswith("no batch completes: the one in progress has run for 6 min")
    assert what_is("unhealthy", problem.health) == "is stuck"
    assert what_was("unhealthy", problem.health) == "was stuck"


def test_what_was_not_measured_is_not_healthy():
    assert verdict(of(batches=(batch(5),))) == HEALTHY
    assert verdict(of()) == "idle"
    assert verdict(of(started_at=NOW - 20)) == "warming up"
    assert verdict(of(queries=(), started_at=NOW - 200)) == "warming up"


def test_a_problem_of_an_older_release_has_words_too():
    assert what_is("unhealthy") == "is not well"
    assert what_is("of a later release") == "of a later release"
    assert what_is("lagging").startswith("is slow")


def test_a_stream_of_which_most_batches_fail_is_not_healthy():
    batches = tuple(batch(1, ago=50.0 - 5 * n, failed=n != 3) for n in range(9))
    made = of(batches=batches)
    assert (verdict(made), made.note) == ("failing", "8 batches failed within the window")
    assert in_trouble(made) and not in_trouble(of(batches=(batch(5),)))
