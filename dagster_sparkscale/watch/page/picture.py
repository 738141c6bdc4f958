"""The last hours of a stream as a small picture: R, executors and lag, and what was done.

It begins with what there is: a stream that is young is drawn over its last minutes, an old one over
six hours. Dagster's pages show Markdown in place only below 1000 characters, so the picture is an
SVG of that size: a bucket of minutes is one step of a path, and its heights are whole numbers.
Pure; drawn with nothing but text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from dagster_sparkscale.durations import span
from dagster_sparkscale.observe.minutes import Minute

WIDTHS = (120, 360, 720)
"""Seconds of a bucket: as long as two ticks at least, or there would be gaps; each a multiple of
the one before."""
BUCKETS = 30
"""The number of buckets: the picture shows one hour, three or six."""
FEW = 10
"""Buckets of the first width that have a picture of their own: of twenty minutes."""
_WIDE = 330
_HIGH = 20
_LANE = 26
_MARKS = 6
_GAP = 3


@dataclass(frozen=True, slots=True)
class Bucket:
    """The worst of some minutes."""

    number: int
    """The bucket's place in time: seconds since the epoch / its width."""
    ratio: float | None = None
    lag: float | None = None
    executors: int | None = None
    """Registered, at its end."""
    operated: bool = False
    """Whether the executors asked for were changed, or another driver came."""

    @property
    def measured(self) -> bool:
        return (self.ratio, self.lag, self.executors) != (None, None, None)


@dataclass
class Buckets:
    """The last hours, in as few buckets as one picture has."""

    width: int = WIDTHS[0]
    """Seconds of each."""
    kept: list[Bucket] = field(default_factory=list)
    """The buckets in order; the first was measured."""
    requested: int | None = None
    """Executors asked for, when that was last known."""
    epoch: int | None = None

    def add(self, minute: Minute) -> None:
        """Put `minute` into its bucket; what is too old for a picture is dropped."""
        self._forget(minute.at)
        operated = _differ(self.requested, minute.requested) or _differ(self.epoch, minute.epoch)
        self.requested = _latest(self.requested, minute.requested)
        self.epoch = _latest(self.epoch, minute.epoch)
        number = minute.at // self.width
        bucket = Bucket(number, minute.ratio, minute.lag, minute.registered, operated)
        if self.kept and self.kept[-1].number == number:
            self.kept[-1] = _together(self.kept[-1], bucket)
        else:
            self.kept.append(bucket)
        while self.kept and not self.kept[0].measured:
            del self.kept[0]
        while self.kept and self.kept[-1].number - self.kept[0].number >= BUCKETS:
            self._widen()

    def _forget(self, now: int) -> None:
        """Drop what is too old, and what has not been yet, as after the clock was set back."""
        kept, widest = self.kept, WIDTHS[-1]
        while kept and kept[-1].number > now // self.width:
            del kept[-1]
        while kept and now // widest - kept[0].number * self.width // widest >= BUCKETS:
            del kept[0]
        while kept and not kept[0].measured:
            del kept[0]
        if not kept:
            self.width = WIDTHS[0]

    def _widen(self) -> None:
        before, self.width = self.width, WIDTHS[WIDTHS.index(self.width) + 1]
        merged: list[Bucket] = []
        for each in self.kept:
            bucket = replace(each, number=each.number * before // self.width)
            if merged and merged[-1].number == bucket.number:
                merged[-1] = _together(merged[-1], bucket)
            else:
                merged.append(bucket)
        self.kept = merged


def _together(one: Bucket, later: Bucket) -> Bucket:
    return Bucket(
        later.number,
        _worse(one.ratio, later.ratio),
        _worse(one.lag, later.lag),
        later.executors,
        one.operated or later.operated,
    )


def picture(buckets: Buckets) -> str:
    """Markdown of less than 1000 characters: the picture and what it shows; empty for nothing."""
    kept = buckets.kept
    if not kept:
        return ""
    few = buckets.width == WIDTHS[0] and kept[-1].number - kept[0].number < FEW
    count = FEW if few else BUCKETS
    step = _WIDE // count
    first = kept[-1].number - count + 1
    places = [each.number - first for each in kept]
    lanes: list[str] = []
    words: list[str] = []
    lines: list[str] = []
    for what, color, values in (
        ("R", "red", [each.ratio for each in kept]),
        ("executors", "blue", [each.executors for each in kept]),
        ("lag in s", "green", [each.lag for each in kept]),
    ):
        if known := [value for value in values if value is not None]:
            y, top = len(lanes) * _LANE, max(1, *known)
            lanes.append(f"<path stroke='{color}' d='{_path(places, values, step, top, y)}'/>")
            least, most = f"{min(known):.3g}", f"{max(known):.3g}"
            words.append(f"{what} {least if least == most else f'{least} to {most}'} ({color})")
            if what == "R":
                lines.append(f"M0 {y + _height(1, top)}h{_WIDE}")
    high = len(lanes) * _LANE
    changes = [place for place, each in zip(places, kept, strict=True) if each.operated]
    if lines:
        words[0] += ", line: 1"
    if changes:
        # No more than there is room for.
        lines += [f"M{place * step} 0v{high}" for place in changes[-_MARKS:]]
        words.append("uprights: rescaled or restarted")
    lanes.insert(0, f"<path stroke='silver' d='{''.join(lines)}'/>")
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDE}' height='{high}' "
        f"fill='none'>{''.join(lanes)}</svg>"
    )
    source = svg.replace("<", "%3C").replace(">", "%3E")
    shown = f"The last {span(count * buckets.width)}: {', '.join(words)}"
    return f"![](<data:image/svg+xml,{source}>)\n\n{shown}"


def _path(
    places: Sequence[int], values: Sequence[float | None], step: int, top: float, shift: int
) -> str:
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
        path += f"M{place * step} {heights[0] + shift}"
        if len(heights) == 1:
            path += f"h{step - _GAP}"  # a point is not seen without a length
            continue
        steps = []
        for down, alike in groupby(after - before for before, after in pairwise(heights)):
            count = len(list(alike))
            steps += [(step, down)] * count if down else [(step * count, 0)]
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
