"""The last hours of a stream as a small picture: R, executors and lag, and what was done.

Dagster's pages show Markdown in place only below 1000 characters, so the picture is an SVG of that
size: a bucket of minutes is one step of a path, and its heights are whole numbers. Pure; drawn with
nothing but text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from dagster_sparkscale.observe.minutes import Minute

HOURS = 6
BUCKETS = 36
BUCKET = HOURS * 3600 / BUCKETS
"""Seconds."""
_STEP = 9
_HIGH = 20
_LANE = 26
_MARKS = 6


@dataclass(frozen=True, slots=True)
class Bucket:
    """The worst of some minutes."""

    number: int
    """Its place in time: seconds since the epoch / `BUCKET`."""
    ratio: float | None = None
    lag: float | None = None
    executors: int | None = None
    """Registered, at its end."""
    requested: int | None = None
    epoch: int | None = None
    operated: bool = False
    """Whether the executors asked for were changed, or another driver came."""


def add(buckets: list[Bucket], minute: Minute) -> None:
    """Put `minute` into its bucket; those that are too old are dropped. Keeps them in order."""
    number = int(minute.at // BUCKET)
    while buckets and buckets[-1].number > number:
        del buckets[-1]  # the clock was set back: these have not been yet
    last = buckets[-1] if buckets else None
    operated = last is not None and (
        _differ(last.requested, minute.requested) or _differ(last.epoch, minute.epoch)
    )
    bucket = Bucket(
        number,
        minute.ratio,
        minute.lag,
        minute.registered,
        _latest(last.requested if last else None, minute.requested),
        _latest(last.epoch if last else None, minute.epoch),
        operated,
    )
    if last is not None and number == last.number:
        buckets[-1] = replace(
            bucket,
            ratio=_worse(last.ratio, bucket.ratio),
            lag=_worse(last.lag, bucket.lag),
            operated=operated or last.operated,
        )
    else:
        buckets.append(bucket)
        while buckets[0].number <= number - BUCKETS:
            del buckets[0]


def picture(buckets: Sequence[Bucket]) -> str:
    """Markdown of less than 1000 characters: the picture and what it shows; empty for nothing."""
    if not buckets:
        return ""
    first = buckets[-1].number - BUCKETS + 1
    places = [each.number - first for each in buckets]
    lanes: list[str] = []
    words: list[str] = []
    lines: list[str] = []
    for what, color, values in (
        ("R", "red", [each.ratio for each in buckets]),
        ("executors", "blue", [each.executors for each in buckets]),
        ("lag in s", "green", [each.lag for each in buckets]),
    ):
        known = [value for value in values if value is not None]
        if known:
            y, top = len(lanes) * _LANE, max(1, *known)
            lanes.append(f"<path stroke='{color}' d='{_path(places, values, top, y)}'/>")
            words.append(f"{what} {min(known):.3g} to {max(known):.3g} ({color})")
            if what == "R":
                lines.append(f"M0 {y + _height(1, top)}h{BUCKETS * _STEP}")
    if not lanes:
        return ""
    high = len(lanes) * _LANE
    changes = [place for place, each in zip(places, buckets, strict=True) if each.operated]
    if lines:
        words[0] += ", line: 1"
    if changes:
        # No more than there is room for.
        lines += [f"M{place * _STEP} 0v{high}" for place in changes[-_MARKS:]]
        words.append("uprights: rescaled or restarted")
    lanes.insert(0, f"<path stroke='silver' d='{''.join(lines)}'/>")
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{BUCKETS * _STEP}' height='{high}' "
        f"fill='none'>{''.join(lanes)}</svg>"
    )
    source = svg.replace("<", "%3C").replace(">", "%3E")
    return f"![](<data:image/svg+xml,{source}>)\n\nThe last {HOURS} h: {', '.join(words)}"


def _path(places: Sequence[int], values: Sequence[float | None], top: float, shift: int) -> str:
    """A path through `values`, from 0 to `top`; with a gap where one is not known."""
    pieces: list[tuple[int, list[int]]] = []
    last = None
    for place, value in zip(places, values, strict=True):
        if value is None:
            continue
        if last is None or place != last + 1:
            pieces.append((place, []))
        pieces[-1][1].append(_height(value, top))
        last = place
    path = ""
    for place, heights in pieces:
        path += f"M{place * _STEP} {heights[0] + shift}"
        if len(heights) == 1:
            path += "h1"  # a point is not seen without a length
            continue
        steps = []
        for down, alike in groupby(after - before for before, after in pairwise(heights)):
            count = len(list(alike))
            steps += [(_STEP, down)] * count if down else [(_STEP * count, 0)]
        path += "l" + " ".join(f"{wide}{' ' if down >= 0 else ''}{down}" for wide, down in steps)
    return path


def _height(value: float, top: float) -> int:
    return _HIGH - round(_HIGH * max(0, value) / top)


def _worse(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _latest(before: int | None, now: int | None) -> int | None:
    return before if now is None else now


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other
