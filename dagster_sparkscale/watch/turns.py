"""What a tick has time for, and in which order: what matters comes first, and nobody waits for
ever. Pure.

Dagster waits 60 s for a tick, and then for nothing that it has found; it stores the events of a
tick one by one, and launches its runs last. So a tick has one budget of seconds for looking,
assessing and telling, what Dagster takes to store included. What is left over, the next tick does.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

TICK = 32.0
"""Seconds of a whole tick. The rest of Dagster's 60 is for a machine that is slower than thought:
no stream more is begun after this."""
LOOKING, ASSESSING = 0.52, 0.75
"""Parts of a tick by which looking ends, and assessing."""
BEFORE_RUNS = 3.0
"""Seconds for storing where runs are asked for: Dagster launches them after it."""
RUNS = 200
"""Runs at most that all sensors of a cluster ask for, each in one tick. Dagster launches them one
after the other, a tenth of a second of a core each and more, and begins no other tick of the sensor
before. After a fault of a thousand streams nothing would be seen of them for minutes."""
LEAST_RUNS = 20
"""Runs of one sensor, however many there are."""
MOST_TOLD = 20e6
"""Characters of what a tick tells Dagster, at most: Dagster refuses a tick above 100 MB (older
releases 50), with all that it asks for, and the next one would be as large."""
OVERDUE = 2.0
"""How many times the time between two of its events a stream waits, until it comes before all."""
PATIENCE = 180.0
"""Seconds for which a stream that a tick had no time for stays as it was last seen. After that it
is not known how it is."""


@dataclass(frozen=True)
class Turn:
    """What decides when it is a stream's turn to be told of."""

    stream: str
    acts: bool
    """Whether a run is asked for."""
    changed: bool
    """Whether its state is another than the one that was told."""
    told_at: float
    """When it was last told of, seconds since the epoch; 0: never."""
    report_every: float
    """Seconds between two events of it at most."""

    def rank(self, now: float) -> tuple[int, float, bool, str]:
        """The lower, the sooner: decisions, and who has waited for too long; then what has changed;
        of equals who was told of longest ago."""
        waited = now - self.told_at
        overdue = not 0 <= waited <= OVERDUE * self.report_every  # below 0: the clock was set back
        first = 0 if self.acts or overdue else 1 if self.changed else 2
        return first, self.told_at, not self.acts, self.stream


def in_turn(turns: Iterable[Turn], now: float) -> list[str]:
    """The streams in the order in which they are told of.

    Args:
        now: seconds since the epoch.
    """
    return [turn.stream for turn in sorted(turns, key=lambda turn: turn.rank(now))]


def to_assess(since: Mapping[str, float], failed: Collection[str]) -> list[str]:
    """The streams in the order in which they are assessed: those that have failed first, then who
    has waited longest.

    Args:
        since: since when each waits, seconds since the epoch, by stream.
    """
    return sorted(since, key=lambda name: (name not in failed, since[name]))


def who_waits(wanted: Mapping[str, float], failed: Collection[str], most: int) -> list[str]:
    """The streams for which there is no room among the runs of a tick: those that have failed come
    first, then who has waited longest.

    Args:
        wanted: since when each waits for which a run is wanted, seconds since the epoch: when a
            policy last decided, its driver was started, or a run was asked for.
        most: runs of a tick.
    """
    return to_assess(wanted, failed)[most:]


def runs_of(shards: int) -> int:
    """Runs that one of so many sensors asks for in a tick at most."""
    return max(LEAST_RUNS, RUNS // shards)


class Room:
    """What is left of a tick for telling."""

    def __init__(self, seconds: float, runs: bool, pace: float) -> None:
        """
        Args:
            seconds: of the whole tick.
            runs: whether any are asked for.
            pace: seconds that Dagster takes to store an event.
        """
        self._seconds, self._before_runs = seconds, BEFORE_RUNS if runs else float("inf")
        self._pace = pace
        self._storing = 0.0
        self._size = 0

    def is_left(self, elapsed: float) -> bool:
        """Whether one stream more may be told of, `elapsed` seconds after the tick began."""
        return (
            elapsed + self._storing < self._seconds
            and self._storing < self._before_runs
            and self._size <= MOST_TOLD
        )

    def take(self, events: int, size: int) -> None:
        """Count what Dagster has to store, and its characters."""
        self._storing += events * self._pace
        self._size += size
