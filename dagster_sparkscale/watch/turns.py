"""What a tick has time for, and in which order: what matters comes first, and nobody waits for
ever. Pure.

Dagster ends a tick after 60 s, and all that it has found with it; then it stores the events of the
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


def to_assess(decided_at: Mapping[str, float], failed: Collection[str]) -> list[str]:
    """The streams in the order in which they are assessed: those that have failed first, then who
    has waited longest.

    Args:
        decided_at: when a policy last decided, by stream, seconds since the epoch.
    """
    return sorted(decided_at, key=lambda name: (name not in failed, decided_at[name]))


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
