"""When the fleet is told of, and what is remembered of it from one tick to the next. Pure."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import FiniteFloat

from dagster_sparkscale.watch.fleet.problems import Problem, Problems, Standing, is_over, problems
from dagster_sparkscale.watch.fleet.rows import Row

QUIET = 600.0
"""Seconds after which a fleet is told of in which nothing changes."""
AT_ONCE = 60.0
"""Seconds between two observations at least."""
CALM = 3.0
"""Seconds a stream between two observations where no state and no problem changes, but executors,
decisions, epochs, steering or lesser checks: in a large fleet some always do, and the event log
must stay small."""
_EARLY = 6.0  # seconds: ticks come every 60 to 65 s, and may be early by a moment


@dataclass
class FleetMemory:
    told_at: FiniteFloat = 0.0
    """When the fleet was last told of, seconds since the epoch; of a sensor that does not tell of
    it, when it began to remember. 0: nothing is remembered."""
    grave: int = 0
    """Digest of what was told then, of what is told at once when it changes."""
    light: int = 0
    """Digest of what may wait."""
    whole_at: FiniteFloat = 0.0
    """When all streams were last in what was told, seconds since the epoch."""
    problems: dict[str, Problems] = field(default_factory=dict)
    """Problems by stream, of those that no other sensor evaluates."""

    def see(self, rows: Iterable[Row]) -> None:
        """Remember the problems of `rows`."""
        for row in rows:
            self.problems[row.stream] = problems(row, self.problems.get(row.stream, {}))

    def is_due(self, rows: Iterable[Row], of: Mapping[str, Problems], now: float) -> bool:
        """Whether the fleet is to be told of now, which it is then taken to be.

        Args:
            of: the problems of all streams.
            now: seconds since the epoch.
        """
        fleet = sorted(rows, key=lambda row: row.stream)
        standing = that_stand(fleet, of, now)
        grave = _digest(
            [
                [[row.stream, row.state] for row in fleet],
                [[row.stream, problem, each.since] for row, problem, each in standing],
            ]
        )
        light = _digest(
            [
                [row.stream, row.epoch, row.registered, row.requested, row.acts]
                + [[each.check, each.mark] for each in row.failing]
                + [row.steering]
                for row in fleet
            ]
        )
        pause = QUIET
        if grave != self.grave:
            pause = AT_ONCE
        elif light != self.light:
            pause = min(QUIET, max(AT_ONCE, CALM * len(fleet)))
        if not _passed(pause, self.told_at, now):
            return False
        self.told_at, self.grave, self.light = now, grave, light
        return True

    def whole_is_due(self, now: float) -> bool:
        """Whether all streams are to be in what is told now, which they are then taken to be: a
        stream that fails and comes back each minute must not store them all each minute."""
        if not _passed(QUIET, self.whole_at, now):
            return False
        self.whole_at = now
        return True


def that_stand(
    rows: Sequence[Row], of: Mapping[str, Problems], now: float
) -> Iterator[tuple[Row, Problem, Standing]]:
    """The problems `of` streams that stand, in the order of `rows`."""
    for row in rows:
        for problem, standing in of.get(row.stream, {}).items():
            if not is_over(problem, standing, now):
                yield row, problem, standing


def _passed(pause: float, since: float, now: float) -> bool:
    return not 0 <= now - since < pause - _EARLY  # below 0: the clock was set back


def _digest(value: Any) -> int:
    return zlib.crc32(json.dumps(value).encode())
