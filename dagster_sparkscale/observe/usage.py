"""The cost of a stream's executors in executor-hours, and what a fixed size would have cost. Pure.

An executor-hour is one executor that is registered for one hour, whatever its cores. Time of which
nothing was measured counts for nothing, and is told: it is no time without executors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from dagster_sparkscale.observe.minutes import Minute

GAP = 180.0
"""Seconds between two minutes at most for which the number of the later one counts: ticks come
every 60 to 65 s, and some late."""
_DAY = 86400


@dataclass(frozen=True)
class Usage:
    """The executors of one stream on one day."""

    day: int = 0
    """Days since the epoch, in UTC."""
    executor_seconds: int = 0
    """Whole, as all that it is made of: the cursor, which is stored each minute, has it of each
    stream, and digits without an end can't be compressed."""
    measured_seconds: int = 0
    most: int = 0
    """The largest number of executors."""

    @property
    def executor_hours(self) -> float:
        return self.executor_seconds / 3600

    @property
    def measured_hours(self) -> float:
        """Hours of the day in which the number of executors was measured."""
        return self.measured_seconds / 3600

    def fixed(self, most: int | None = None) -> float:
        """The executor-hours of a fixed size in the same time.

        Args:
            most: that size; None: the largest number of the day.
        """
        return self.measured_hours * (self.most if most is None else most)

    def after(self, minute: Minute, before: int) -> "Usage":
        """The usage of a day with one minute more; of another day, if the minute is.

        Args:
            before: when the minute before was, seconds since the epoch.
        """
        day = minute.at // _DAY
        today = self if day == self.day else Usage(day)
        elapsed = minute.at - before
        if minute.registered is None or not 0 < elapsed <= GAP:
            return today
        return replace(
            today,
            executor_seconds=today.executor_seconds + minute.registered * elapsed,
            measured_seconds=today.measured_seconds + elapsed,
            most=max(today.most, minute.registered),
        )


def usage_by_day(minutes: Iterable[Minute]) -> list[Usage]:
    """What the executors of a stream have cost, day by day in UTC.

    Args:
        minutes: of `history`, in order of time.
    """
    return list(_days(minutes))


def _days(minutes: Iterable[Minute]) -> Iterator[Usage]:
    today: Usage | None = None
    for before, minute in pairwise(minutes):
        later = (today or Usage()).after(minute, before.at)
        if today is not None and later.day != today.day:
            yield today
        today = later
    if today is not None:
        yield today
