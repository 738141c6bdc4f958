"""Windows of time in which a stream is scaled otherwise, or left alone. Pure.

What the clock on the wall shows counts, in the calendar's time zone. A window from 22:00 for eight
hours ends at 06:00, also in the nights in which clocks change. Minutes that the clock skips are in
no window, and those that come twice are in it both times. So windows which follow one another do so
on every day, and those that exclude each other never meet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, StrictBool

from dagster_sparkscale.declare.cron import gaps, last_start, next_start, sampled, schedule_faults
from dagster_sparkscale.declare.declaration import Count, Declaration, Seconds
from dagster_sparkscale.durations import in_units

WindowKind = Literal["freeze", "advise", "bounds"]
_KINDS: tuple[WindowKind, ...] = get_args(WindowKind)
"""The most decisive first."""

_YEAR = 366
"""Windows of one cron schedule that are compared with those of another."""
_MOMENT = timedelta(microseconds=1)
_TOLERANCE = 1e-3
"""Seconds; clocks change, and windows begin, at whole ones."""
_STEP = 43200.0
"""Seconds between two looks for a change of the clock: two never come within half a day."""


def _must_be_two(value: Any) -> Any:
    """Refuses bounds that lack one side."""
    if value is None or (isinstance(value, list | tuple) and len(value) == 2):
        return value
    raise ValueError("must be two numbers, the fewest and the most executors, such as (2, 8)")


class Window(Declaration):
    """A time that comes again and again, and what holds in it: one of `bounds`, `freeze` and
    `advise`."""

    cron: str
    """When it begins, such as `0 22 * * MON-FRI`."""

    duration: Annotated[Seconds, Field(ge=60, le=366 * 86400.0)]
    """How long it goes on by the clock on the wall, such as `"8h"`."""

    bounds: Annotated[tuple[Count | None, Count | None] | None, BeforeValidator(_must_be_two)] = (
        None
    )
    """The fewest and the most executors, in place of the policy's. None of one: as declared."""

    freeze: StrictBool = False
    """Whether nothing is changed automatically, but a driver that failed is started again."""

    advise: StrictBool = False
    """Whether decisions are made and shown, and not carried out."""

    reason: str = ""
    """Why, for people; shown wherever the window changes a decision."""

    @property
    def kind(self) -> WindowKind:
        """What holds in it."""
        return next(kind for kind in _KINDS if getattr(self, kind))

    def holds(self, wall: datetime) -> bool:
        """Whether it holds when the clock shows `wall`."""
        return wall < last_start(self.cron, wall) + self._length

    def edge(self, wall: datetime) -> datetime:
        """What the clock shows when it ends, where it holds at `wall`; else, when it begins."""
        if not self.holds(wall):
            return next_start(self.cron, wall)
        end = last_start(self.cron, wall) + self._length
        while self.holds(end):
            end += self._length
        return end

    @property
    def _length(self) -> timedelta:
        return timedelta(seconds=self.duration)

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        kinds = [kind for kind in _KINDS if getattr(self, kind)]
        if not kinds:
            yield "freeze = False: must be True, or drop it and give bounds or advise"
        if len(kinds) > 1:
            last = kinds.pop()
            yield f"{last} = {getattr(self, last)}: drop it, or drop {' and '.join(kinds)}"
        if self.bounds is not None:
            low, high = self.bounds
            if low is None and high is None:
                yield f"bounds = {self.bounds}: must have a number, such as (2, 8)"
            if low is not None and high is not None and low > high:
                yield f"bounds = {self.bounds}: must have the fewest first, and then the most"
        unreadable = [*schedule_faults("cron", self.cron, None)]
        yield from unreadable or self._wrong_times()

    def _wrong_times(self) -> Iterator[str]:
        again = gaps(self.cron)
        shortest = min(again, default=timedelta.max)
        if not sampled(self.cron):
            yield f"cron = {self.cron!r}: must name a day that comes, such as 28 2"
        elif self._length > shortest:
            yield (
                f"duration = {in_units(self.duration)}: must be at most "
                f"{in_units(shortest.total_seconds())}, after which cron = {self.cron!r} comes "
                "again"
            )
        elif again == {self._length}:
            yield (
                f"duration = {in_units(self.duration)}: must be less: it would never end, as "
                f"cron = {self.cron!r} comes again by then"
            )

    def __str__(self) -> str:
        return f"bounds = {self.bounds} at cron = {self.cron!r} for {in_units(self.duration)}"


@dataclass(frozen=True)
class Spell:
    """One time that a window holds."""

    window: Window
    since: float
    """Seconds since the epoch."""
    until: float
    """Seconds since the epoch, at which it does not hold any more."""


@dataclass(frozen=True)
class Moment:
    """What a calendar says at a moment."""

    at: float
    """Seconds since the epoch."""
    holding: tuple[Spell, ...]
    """What holds, at most one of each kind. Empty: as declared."""
    until: float
    """Seconds since the epoch at which a window begins or ends."""
    following: tuple[Spell, ...]
    """What holds from then on. Empty: as declared."""


class Calendar(Declaration):
    """Windows in which a stream is scaled otherwise, or left alone."""

    timezone: str = "UTC"
    """The time zone of all windows, such as `Europe/Berlin`."""

    windows: Annotated[tuple[Window, ...], Field(min_length=1)]
    """Windows of different kinds may overlap. Where two of bounds do, both have the same."""

    def at(self, now: float) -> Moment:
        """What holds at `now`, until when, and what holds next.

        Args:
            now: seconds since the epoch.
        """
        # Windows change a few times a day, and a thousand streams ask each minute.
        for moment in self._last:
            if moment.at <= now < moment.until:
                return moment
        until = min(self._flip(window, now) for window in self.windows)
        moment = Moment(now, self._holding(now), until, self._holding(until))
        self._last[:] = [moment]
        return moment

    def misfits(self, least: int, ceiling: int | None, scaled: bool) -> Iterator[str]:
        """What is wrong with it for a stream, as lines that name the stream's field.

        Args:
            least: the fewest executors that the stream can run with.
            ceiling: the most executors that its driver can have; None: whatever the cluster has.
            scaled: whether it has a policy whose numbers bounds could replace.
        """
        for index, window in enumerate(self.windows):
            if window.bounds is None:
                continue
            field = f"calendar.windows.{index}.bounds = {window.bounds}"
            numbers = [number for number in window.bounds if number is not None]
            if not scaled:
                yield f"{field}: drop it, or give autoscale, whose numbers it replaces"
            elif ceiling is not None and max(numbers) > ceiling:
                yield (
                    f"{field}: must be at most {ceiling}, the most executors that the driver can "
                    "have; raise autoscale.ceiling, and spark.cores.max where that is set"
                )
            elif min(numbers) < least:
                yield (
                    f"{field}: must be at least {least}, the fewest executors this stream can run "
                    "with"
                )

    @cached_property
    def _last(self) -> list[Moment]:
        """The last answer, which is right until a window begins or ends."""
        return []

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def _holding(self, at: float) -> tuple[Spell, ...]:
        """What holds at a moment. Of two windows of a kind the one that goes on for longer."""
        spells = sorted(
            (
                Spell(window, self._since(window, at), self._flip(window, at))
                for window in self.windows
                if window.holds(self._wall(at))
            ),
            key=lambda spell: spell.until,
        )
        by_kind = {spell.window.kind: spell for spell in spells}
        return tuple(by_kind[kind] for kind in _KINDS if kind in by_kind)

    def _flip(self, window: Window, at: float) -> float:
        """When a window begins or ends next, seconds since the epoch."""
        held = window.holds(self._wall(at))
        while True:
            wall = self._wall(at)
            then = round(at + (window.edge(wall) - wall).total_seconds(), 3)
            if (shift := self._shift(at, then)) is None:
                return then
            # Clocks change before: what they show then is to be asked anew.
            if window.holds(self._wall(shift)) != held:
                return shift
            at = shift

    def _since(self, window: Window, at: float) -> float:
        """When a window which holds at a moment began, seconds since the epoch."""
        while True:
            wall = self._wall(at)
            start = last_start(window.cron, wall)
            while window.holds(start - _MOMENT):
                start = last_start(window.cron, start - _MOMENT)
            began = latest = round(at - (wall - start).total_seconds(), 3)
            while (shift := self._shift(latest, at)) is not None:
                latest = shift
            if latest == began:
                return began
            # Clocks changed since: what they showed before is to be asked anew.
            at = latest - _TOLERANCE
            if not window.holds(self._wall(at)):
                return latest

    def _shift(self, after: float, until: float) -> float | None:
        """When the clock changes first, after one moment and until another; None: it does not."""
        offset, low = self._offset(after), after
        while low < until:
            high = min(low + _STEP, until)
            if self._offset(high) == offset:
                low = high
                continue
            while high - low > _TOLERANCE:
                middle = (low + high) / 2
                low, high = (middle, high) if self._offset(middle) == offset else (low, middle)
            return float(round(high))
        return None

    def _offset(self, at: float) -> timedelta | None:
        return datetime.fromtimestamp(at, self._zone).utcoffset()

    def _wall(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._zone).replace(tzinfo=None)

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        yield from schedule_faults("windows", "@daily", self.timezone)
        of_bounds = [window for window in self.windows if window.bounds is not None]
        for one, other in combinations(of_bounds, 2):
            if one.bounds != other.bounds and (when := _meeting(one, other)) is not None:
                yield (
                    f"windows: {one} and {other}: must have the same bounds, or not overlap, as "
                    f"they do on {when:%A, %d %B %Y, at %H:%M}"
                )


@lru_cache(maxsize=1024)  # streams of a cluster often have the same
def _meeting(one: Window, other: Window) -> datetime | None:
    """What the clock shows when two windows hold at the same time; None: they never do."""
    rare, often = sorted((one, other), key=lambda window: len(sampled(window.cron)))
    length = timedelta(seconds=rare.duration)
    for start in sampled(rare.cron)[:_YEAR]:
        begun = last_start(often.cron, start + length - _MOMENT)
        if begun + timedelta(seconds=often.duration) > start:
            return max(begun, start)
    return None
