"""The asset `fleet`: all streams of a cluster on one page, and what the sensor tells of it.

Told by observations, for nothing is materialized. Dagster shows Markdown of less than 1000
characters on the page itself, and longer one behind a click.
"""

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg
from dagster import DagsterInstance
from pydantic import FiniteFloat

from dagster_sparkscale.names import FLEET, PREFIX, scoped
from dagster_sparkscale.operations import Streams, in_flight
from dagster_sparkscale.watch.fleet import (
    Row,
    asset_path,
    in_pieces,
    markdown,
    sentence,
    worst_first,
)
from dagster_sparkscale.watch.problems import Problems, is_over, problems

QUIET = 600.0
"""Seconds between two observations of a fleet in which nothing changes."""
AT_ONCE = 60.0
"""Seconds between two observations at least."""
CALM = 3.0
"""Seconds a stream between two observations where no more than executors, decisions, epochs or
lesser checks change: in a large fleet some always do, and the event log must stay small."""
_EARLY = 6.0  # seconds: ticks come every 60 to 65 s, and may be early by a moment
PIECES, PIECE = 3, 1000
"""Tables on the page itself, and characters that each stays below."""
ROWS, PROBLEMS = 200, 100
"""Rows of the whole table, and problems, that are stored at most; the rest is counted."""

AT_A_GLANCE = PREFIX + "at_a_glance"
ALL_STREAMS = PREFIX + "whole_table"
PROBLEMS_NOW = PREFIX + "problems"


@dataclass
class FleetMemory:
    """What the sensor remembers of the fleet from one tick to the next."""

    told_at: FiniteFloat = 0.0
    """When it was last told of, seconds since the epoch."""
    grave: int = 0
    """Digest of what is told at once."""
    light: int = 0
    """Digest of what may wait."""
    problems: dict[str, Problems] = field(default_factory=dict)
    """By stream, of those that have any."""


def fleet_key(cluster_key: str) -> dg.AssetKey:
    return dg.AssetKey([scoped(FLEET, cluster_key)])


def fleet_asset(streams: Streams) -> dg.AssetSpec:
    """The asset of the fleet; in the streams' group, if they share one."""
    groups = {stream.group for stream in streams}
    return dg.AssetSpec(
        fleet_key(streams.cluster_key),
        group_name=groups.pop() if len(groups) == 1 else None,
        kinds={"spark", "streaming"},
        description="All streams of the cluster, the worst first. The sensor tells of them when "
        f"something changes, and every {QUIET / 60:.0f} minutes.",
    )


def told_of_fleet(
    streams: Streams,
    rows: Iterable[Row],
    memory: FleetMemory,
    instance: DagsterInstance,
    owner: str,
    now: float,
) -> Iterator[dg.AssetObservation]:
    """What Dagster is told of the fleet: one observation, or none. `memory` keeps what it has been
    told before.

    Args:
        owner: the code location and cluster it is told by.
        now: seconds since the epoch.
    """
    fleet = worst_first(rows)
    memory.problems = {
        row.stream: found
        for row in fleet
        if (found := problems(row, memory.problems.get(row.stream, {})))
    }
    standing = [
        {
            "stream": row.stream,
            "problem": problem,
            "since": each.since,
            "text": each.text,
            "page": asset_path(row),
        }
        for row in fleet
        for problem, each in memory.problems.get(row.stream, {}).items()
        if not is_over(problem, each, now)
    ]
    grave = _digest(
        [
            [[each["stream"], each["problem"], each["since"]] for each in standing],
            [[row.stream, row.state] for row in fleet],
        ]
    )
    light = _digest(
        [
            [row.stream, row.epoch, row.registered, row.requested, row.acts]
            + [[each.check, each.mark] for each in row.failing]
            for row in fleet
        ]
    )
    pause = QUIET
    if grave != memory.grave:
        pause = AT_ONCE
    elif light != memory.light:
        pause = min(QUIET, max(AT_ONCE, CALM * len(fleet)))
    if 0 <= now - memory.told_at < pause - _EARLY:
        return
    memory.told_at, memory.grave, memory.light = now, grave, light
    busy = in_flight(instance, streams.cluster_key, now)
    fleet = [
        replace(row, waits=f"{busy[row.stream]} is in progress")
        if row.waits is None and row.stream in busy
        else row
        for row in fleet
    ]
    yield observation(fleet_key(streams.cluster_key), fleet, standing, owner, now)


def observation(
    key: dg.AssetKey,
    fleet: Sequence[Row],
    standing: Sequence[Mapping[str, Any]],
    owner: str,
    now: float,
) -> dg.AssetObservation:
    """What is told of a fleet, the worst first, and of its problems."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    glance = f"{at}: {sentence(fleet)}"
    pieces = in_pieces(fleet, PIECE, PIECES)
    metadata: dict[str, Any] = {AT_A_GLANCE: glance}
    for number, piece in enumerate(pieces, 1):
        metadata[f"{PREFIX}streams_{number}"] = dg.MetadataValue.md(piece)
    if sum(piece.count("\n") - 2 for piece in pieces) < len(fleet):
        left_out = f"\nand {len(fleet) - ROWS} more streams" if len(fleet) > ROWS else ""
        metadata[ALL_STREAMS] = dg.MetadataValue.md(markdown(fleet[:ROWS]) + left_out)
    metadata[PROBLEMS_NOW] = dg.MetadataValue.json(
        {
            "of": owner,
            "at": round(now, 3),
            "problems": standing[:PROBLEMS],
            "left_out": max(0, len(standing) - PROBLEMS),
        }
    )
    return dg.AssetObservation(asset_key=key, metadata=metadata)


def _digest(value: Any) -> int:
    return zlib.crc32(json.dumps(value, separators=(",", ":")).encode())
