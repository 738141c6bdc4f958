"""What the event log says of a stream, added up: executor time, decisions, rescales. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.usage import Usage

BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, float("inf"))
"""Upper bounds of the durations of rescales, seconds; two minutes are what a rescale waits."""
LONGEST = 1e9
"""Seconds: what is longer is no measurement."""
_DAY = 86400


@dataclass
class Tally:
    """The sums of one stream, since a moment that does not change. They only grow."""

    minutes: int = 0
    last_at: int = 0
    """When the last minute was, seconds since the epoch."""
    executor_seconds: int = 0
    measured_seconds: int = 0
    changes: int = 0
    holds: int = 0
    rescales: Counter[str] = field(default_factory=Counter)
    """How many have ended, by ending."""
    durations: Counter[tuple[str, float]] = field(default_factory=Counter)
    """How many there are, by ending and upper bound; one that was not measured is in none."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long they took in all, by ending."""

    def add_minutes(self, minutes: Iterable[Minute]) -> None:
        """Add minutes, in order of time. One that was stored twice after a crash counts once."""
        for minute in minutes:
            if minute.at <= self.last_at:
                continue
            if self.minutes:
                more = Usage(minute.at // _DAY).after(minute, self.last_at)
                self.executor_seconds += more.executor_seconds
                self.measured_seconds += more.measured_seconds
            if minute.decision is not None:
                self.changes += 1
            elif minute.state == "running":
                self.holds += 1
            self.minutes, self.last_at = self.minutes + 1, minute.at

    def add_rescale(self, story: Mapping[str, Any]) -> None:
        """Add a rescale by the report of its operation."""
        ending, took = str(story.get("ending")), story.get("seconds")
        self.rescales[ending] += 1
        if isinstance(took, int | float) and 0 <= took < LONGEST:
            bucket = next(bound for bound in BUCKETS if took <= bound)
            self.durations[ending, bucket] += 1
            self.seconds[ending] = self.seconds.get(ending, 0.0) + took
