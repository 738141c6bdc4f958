"""A year of one stream, read back from a database server in the memory of a page."""

import json
import subprocess
import sys
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable

from dagster_sparkscale.observe.minutes import Minute, stored
from dev.databases.server import Server
from tests.observe.stored import store

pytestmark = pytest.mark.databases

KEY = dg.AssetKey("clicks")
SINCE = 1_700_000_000
EVENTS = {"postgres": 365 * 12, "mysql": 60 * 12}
"""For each server: those of a year, which take long to read, and those of two months."""
LASTS = 120
"""Minutes of an event."""
MOST = {"postgres": 40.0, "mysql": 20.0}
"""MB. A year as a list is more than 200, two months are more than 35."""


_PATTERN = [
    astuple(
        Minute(
            0,
            "running",
            epoch=1,
            ratio=round(0.3 + number * 13 % 400 / 1000, 3),
            lag=round(1.0 + number * 3 % 90 / 10, 1),
            registered=4,
            requested=4,
            processing_ms=3000 + number * 17 % 3000,
            input_rate=1000 + number % 500,
            processed_rate=2000 + number % 700,
            completed=6,
            failed=0,
        )
    )[1:]
    for number in range(997)
]
"""What was seen, minute after minute; then again from the beginning."""


def minutes(event: int) -> list[Minute]:
    numbers = range(LASTS * event, LASTS * (event + 1))
    return [Minute(SINCE + 60 * number, *_PATTERN[number % len(_PATTERN)]) for number in numbers]


def store_events(instance: dg.DagsterInstance, events: int) -> float:
    """Dagster stores the first event, and the others are like it. Returns R in the mean."""
    store(instance, KEY, minutes(0))
    table, first = SqlEventLogStorageTable, stored(minutes(0))
    ratios, rows = [each.ratio or 0.0 for each in minutes(0)], []
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        (row,) = connection.execute(
            sqlalchemy.select(table).where(table.c.asset_key == KEY.to_string())
        ).mappings()
        assert row["event"].count(first) == 1
        for event in range(1, events):
            told = minutes(event)
            ratios += [each.ratio or 0.0 for each in told]
            at = row["timestamp"] + timedelta(minutes=LASTS * event)
            text = row["event"].replace(first, stored(told))
            rows.append({**row, "event": text, "timestamp": at})
            del rows[-1]["id"]
        for begin in range(0, len(rows), 1000):
            connection.execute(sqlalchemy.insert(table), rows[begin : begin + 1000])
    return sum(ratios) / len(ratios)


def test_a_year_is_read_in_the_memory_of_a_page(
    instance: dg.DagsterInstance, server: Server, home: Path
) -> None:
    events = EVENTS[server.KIND]
    ratio = store_events(instance, events)
    command = [sys.executable, "-m", "tests.databases.year", str(home), "clicks", str(SINCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["minutes"] == LASTS * events
    assert told["grown"] < MOST[server.KIND], told
    assert told["ratio"] == pytest.approx(ratio)
