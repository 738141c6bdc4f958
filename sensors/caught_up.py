"""What this team does when a stream has caught up: it counts its visits anew.

A pattern to copy, for whatever should follow something that happened to a stream. Nobody has to ask
the stream or its cluster: the minutes that the autoscaler has seen are in Dagster's event log
(`history`, docs/watching.md). The cursor remembers how far they were read. The run's key says which
occasion it is for, so Dagster makes one run of it, whatever is read twice.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import dagster as dg

from dagster_sparkscale import Minute, history

STREAM = "visits"
BEHIND = 30.0
"""Seconds of lag from which on the stream is behind."""
CAUGHT_UP = 10.0
"""Seconds of lag up to which it has caught up. Well below `BEHIND`, or a lag about it would be an
occasion every other minute."""

FIRST_LOOK = 3600.0
"""Seconds that the first tick looks back."""


@dataclass(frozen=True)
class Cursor:
    """How far the minutes of a stream were read, and what is open."""

    read_until: int = 0
    """The first minute that was not read, seconds since the epoch."""
    behind_since: int | None = None
    """When the stream fell behind; None: it is not."""


def follow(cursor: Cursor, minutes: Iterable[Minute]) -> tuple[Cursor, list[int]]:
    """The cursor after these minutes, and since when the stream was behind, of each time that it
    has caught up in them."""
    behind_since, read_until, caught_up = cursor.behind_since, cursor.read_until, []
    for minute in minutes:
        read_until = minute.at + 1
        if minute.lag is None:
            continue  # not measured: neither behind nor caught up
        if behind_since is None and minute.lag >= BEHIND:
            behind_since = minute.at
        elif behind_since is not None and minute.lag <= CAUGHT_UP:
            caught_up.append(behind_since)
            behind_since = None
    return Cursor(read_until, behind_since), caught_up


def count(folder: Path) -> Mapping[str, int]:
    """Robots and people among the visits that the stream has written."""
    counted = {"robots": 0, "people": 0}
    for path in sorted(folder.glob("part-*.json")):
        for line in path.read_text().splitlines():
            counted["robots" if json.loads(line)["robot"] else "people"] += 1
    return counted


def visit_reports(output: Path) -> dg.Definitions:
    """The asset of the counts and the sensor that has it made; `output` is what the stream writes
    to."""

    @dg.asset(
        deps=[STREAM],
        group_name="reports",
        description="Robots and people among all visits, counted when the stream has caught up.",
    )
    def visit_counts() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata=count(output))

    @dg.sensor(
        target=visit_counts,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Has the visits counted when {STREAM} was behind and has caught up.",
    )
    def visits_caught_up(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        cursor = Cursor(int(time.time() - FIRST_LOOK))
        if context.cursor:
            cursor = Cursor(**json.loads(context.cursor))
        try:
            minutes = history(context.instance, STREAM, cursor.read_until)
        except LookupError:
            return dg.SkipReason(f"{STREAM} was never started")
        cursor, caught_up = follow(cursor, minutes)
        now = "is not behind" if cursor.behind_since is None else "has not caught up yet"
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=f"{STREAM}, behind at {at}") for at in caught_up],
            skip_reason=None if caught_up else f"{STREAM} {now}; {len(minutes)} minutes are new",
            cursor=json.dumps(asdict(cursor)),
        )

    return dg.Definitions(assets=[visit_counts], sensors=[visits_caught_up])
