"""Minutes of a long time as few points: each is the worst of the minutes it stands for. Pure.

What is thinned may be thinned again, with more minutes added: it comes to the same as if all were
thinned at once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from dagster_sparkscale.observe.minutes import Minute

MOST = 1500
"""Points of a chart: more than a screen has pixels for."""
TICK = 60
"""Seconds between two minutes of a stream, as a rule."""
GAP = 180
"""Seconds without a minute from which on nothing was measured: ticks may be late."""


@dataclass(frozen=True, slots=True)
class Point:
    """Some minutes that follow each other."""

    first: int
    """When the first of them was, seconds since the epoch."""
    last: int
    worst: Minute
    """The worst value of each field, as `WORST` says; `at` is that of the first."""


def _last(one: Any, later: Any) -> Any:
    return later


_LOWEST = ("processed_rate", "registered", "limit", "receivers", "completed")
_HIGHEST = (
    *("ratio", "overdue", "lag", "requested", "processing_ms", "scheduling_ms", "input_rate"),
    *("backlog", "pending", "failed", "peak_rate", "delay"),
)
WORST: dict[str, Callable[[Any, Any], Any]] = {
    **{field.name: _last for field in fields(Minute)},
    **dict.fromkeys(_LOWEST, min),
    **dict.fromkeys(_HIGHEST, max),
}
"""The worse of two values, by field; of what is neither, the later one."""


def width(seconds: float) -> int:
    """Seconds that one point stands for, in a chart of so many seconds: whole minutes. Up to
    `TICK`, each minute is a point of its own."""
    return max(1, ceil(seconds / MOST / TICK)) * TICK


def points(minutes: Iterable[Minute]) -> list[Point]:
    """A point for each minute."""
    return [Point(each.at, each.at, each) for each in minutes]


def thinned(given: Iterable[Point], wide: int) -> list[Point]:
    """Points in order of time, one for each `wide` seconds in which there is any.

    Args:
        given: in any order; a minute that comes twice counts once.
        wide: a multiple of `TICK`; up to `TICK`, only what is of one moment is put together.
    """
    found: list[Point] = []
    for each in sorted(given, key=lambda one: (one.first, one.last)):
        if found and _together(found[-1], each, wide):
            found[-1] = _merged(found[-1], each)
        else:
            found.append(each)
    return found


def _together(one: Point, other: Point, wide: int) -> bool:
    if wide <= TICK:
        return one.first == other.first
    return one.first // wide == other.first // wide


def _merged(one: Point, other: Point) -> Point:
    earlier, later = (one, other) if one.last <= other.last else (other, one)
    worst: dict[str, Any] = {}
    for name, worse in WORST.items():
        a, b = getattr(earlier.worst, name), getattr(later.worst, name)
        if a is None or b is None:
            worst[name] = b if a is None else a
        else:
            worst[name] = worse(a, b)
    worst["at"] = first = min(one.first, other.first)
    return Point(first, later.last, Minute(**worst))


def with_gaps(given: Sequence[Point]) -> list[tuple[int, Minute | None]]:
    """The moments of a chart, and what is drawn at each; None: nothing was measured from there to
    the next one."""
    found: list[tuple[int, Minute | None]] = []
    for number, each in enumerate(given):
        found.append((each.first, each.worst))
        if number + 1 < len(given) and given[number + 1].first - each.last > GAP:
            # A measured step lasts for a minute.
            found.append((each.last + TICK, None))
    return found
