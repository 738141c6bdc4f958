"""How far a stream is behind, whatever its source tells."""

import pytest
from hypothesis import given

from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.watch.fleet.behind import behind, in_a_cell
from dagster_sparkscale.watch.fleet.rows import row
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, scaled, status
from tests.watch.assessing import assess
from tests.watch.fleets import line, rows

UNKNOWN = "its source does not tell how far behind it is, nor what waits"


@pytest.mark.parametrize(
    ("fields", "text", "cell"),
    [
        ({}, UNKNOWN, "-"),
        ({"lag": 75.0}, "75 s behind the tip of its source", "75 s"),
        (
            {"lag": 4.0, "backlog": 12_000},
            "4 s behind the tip of its source; 12,000 records wait",
            "4 s",
        ),
        ({"backlog": 1}, "1 record waits", "1 rec"),
        ({"backlog": 0}, "0 records wait", "-"),
        ({"files": 1234}, "at least 1,234 files wait", "1,234 files"),
        (
            {"files": 0, "throttled": True, "limit": 3.0},
            f"{UNKNOWN}; it takes all that its limit of 3 records/s lets it, and more may wait",
            "-",
        ),
        (
            {"files": 1, "throttled": True, "limit": 3.0},
            "at least 1 file waits; it takes all that its limit of 3 records/s lets it",
            "1 file",
        ),
        ({"pending": 1, "backlog": 0}, "1 batch is due and not done", "-"),
        (
            {"pending": 3, "backlog": 50},
            "3 batches are due and not done; 50 records wait",
            "3 batches",
        ),
        (
            {"batch_for": 360.0, "stuck_for": 360.0},
            f"{UNKNOWN}; its batch in progress has run for 6 min",
            "> 6 min",
        ),
        (
            {"pending": 0, "offered_rate": 60.0, "taken_rate": 3.5},
            "0 batches are due and not done; 60 records/s are offered, and 3.5 are processed",
            "-",
        ),
        (
            {"lag": 0.0, "taken_rate": 1200.0, "possible_rate": 2300.0, "offered_rate": 1210.0},
            "0 s behind the tip of its source; 1,200 records/s come in, and 2,300 could be "
            "processed",
            "0 s",
        ),
        ({"lag": 0.0, "taken_rate": 0.0}, "0 s behind the tip of its source; nothing comes in", ""),
        (
            {"throttled": True, "limit": 3.0},
            f"{UNKNOWN}; it takes all that its limit of 3 records/s lets it, and more may wait",
            "-",
        ),
        ({"state": "failed", "lag": 4.0}, "", "4 s"),
    ],
)
def test_what_is_known_is_said_and_what_is_not_too(fields, text, cell):
    made = line(**{"registered": 2} | fields)
    assert behind(made) == text
    assert in_a_cell(made) == (cell or "0 s")


@given(rows)
def test_a_cell_is_short_whatever_there_is(row):
    assert 0 < len(in_a_cell(row)) < 30


def test_a_dstream_tells_what_is_offered_and_which_batches_wait():
    graph = Query(QUERY, active=True, interval_ms=1000, pending_batches=4, running_ms=2500)
    batches = tuple(batch(2.5, ago=5.0 - n) for n in range(2))
    said = status(queries=(graph,), batches=batches)
    made = row(assess(scaled(max_executors=8), Sighting("clicks", driver(), said), now=2000.0))
    assert (made.pending, made.batch_for, made.offered_rate) == (4, 2.5, 100.0)
    assert made.taken_rate is not None
    assert made.taken_rate < 100
    assert "100 records/s are offered, and 3.33 are processed" in behind(made)


def test_of_a_file_source_the_files_that_wait_are_told():
    reading = Query(QUERY, active=True, files_waiting=7)
    other = Query("other", active=True)
    sighting = Sighting("clicks", driver(), status(queries=(reading, other)))
    assert behind(row(assess(scaled(), sighting, now=2000.0))) == "at least 7 files wait"
    old = Sighting("clicks", driver(), status(queries=(reading,), age=60.0))
    assert row(assess(scaled(), old, now=2000.0)).files is None


def test_what_is_not_known_is_not_laid_to_the_source():
    kafka = Query(QUERY, active=True, behind_ms=60_000, backlog_records=1000)
    for sighting in (
        Sighting("clicks", driver(), None, error="its agent does not answer"),
        Sighting("clicks", driver(), status(queries=(kafka,), age=60.0)),
    ):
        said = behind(row(assess(scaled(max_executors=8), sighting, now=2000.0)))
        assert said.startswith("how far behind it is and what waits is not known now")
