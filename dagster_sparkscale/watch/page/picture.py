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
from dagster_sparkscale.markdown import INLINE
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.quantities import DASH

WIDTHS = (120, 360, 720)
"""Seconds of a bucket: as long as two ticks at least, or there would be gaps; each a multiple of
the one before."""
BUCKETS = 30
"""The number of buckets: the picture shows one hour, three or six."""
FEW = 10
"""Buckets of the first width that have a picture of their own: of twenty minutes."""
_WIDE = 240
_HIGH = 20
_LANE = 26
_MARKS = 6
_GAP = 3
_TEXT = 90
"""Width of the column with names and numbers."""
_TIMES = 12
_LETTER = 5
"""Width of a letter, about."""
CLIPPED = 3.0
"""The height up to which what stands in for R is drawn, or R's own highest: a batch that hangs for
an hour would make all else flat. Its number is written whole."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The worst of some minutes."""

    number: int
    """The bucket's place in time: seconds since the epoch / its width."""
    ratio: float | None = None
    lag: float | None = None
    executors: int | None = None
    """Registered, at its end."""
    scaled: bool = False
    """Whether the executors asked for were changed."""
    restarted: bool = False
    """Whether another driver came."""
    stand_in: float | None = None
    """Age of a batch in progress / batch interval, of minutes in which none completed and R was not
    measured."""

    @property
    def measured(self) -> bool:
        known = (self.ratio, self.lag, self.executors, self.stand_in)
        return any(value is not None for value in known)

    @property
    def load(self) -> float | None:
        """R, or what stands in for it; the worse of them."""
        return _worse(self.ratio, self.stand_in)


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
    latest: Bucket | None = field(default=None, compare=False)
    """The last minute alone: the numbers beside the lines are of it, and not the worst of many."""

    def add(self, minute: Minute) -> None:
        """Put `minute` into its bucket; what is too old for a picture is dropped."""
        self._forget(minute.at)
        scaled = _differ(self.requested, minute.requested)
        restarted = _differ(self.epoch, minute.epoch)
        stand_in = minute.overdue if minute.ratio is None else None
        self.requested = _latest(self.requested, minute.requested)
        self.epoch = _latest(self.epoch, minute.epoch)
        number = minute.at // self.width
        values = (minute.ratio, minute.lag, minute.registered)
        self.latest = bucket = Bucket(number, *values, scaled, restarted, stand_in)
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
        one.scaled or later.scaled,
        one.restarted or later.restarted,
        _worse(one.stand_in, later.stand_in),
    )


def picture(buckets: Buckets) -> str:
    """Markdown of less than 1000 characters: the picture and what it shows; empty for nothing."""
    if not buckets.kept:
        return ""
    # Of a day on which all changes all the time, times and marks have no room.
    for times, marks in ((True, _MARKS), (False, _MARKS), (False, 2), (False, 0)):
        drawn = _Drawing(buckets, times, marks).markdown()
        if len(drawn) <= INLINE:
            break
    return drawn


@dataclass
class _Drawing:
    """One try to draw a picture."""

    buckets: Buckets
    times: bool
    marks: int
    """Marks of each kind at most, the latest ones."""

    def markdown(self) -> str:
        kept, width = self.buckets.kept, self.buckets.width
        few = width == WIDTHS[0] and kept[-1].number - kept[0].number < FEW
        count = FEW if few else BUCKETS
        step, span_of_all = _WIDE // count, span(count * width)
        places = [each.number - kept[-1].number + count - 1 for each in kept]
        lanes, texts, silver = self._lanes(places, step)
        high = len(lanes) * _LANE
        # With times the picture says it itself.
        said = [] if self.times else [f"The last {span_of_all}"]
        orange = ""
        for name, color, changed in (
            ("rescaled", "silver", [each.scaled and not each.restarted for each in kept]),
            ("restarted", "orange", [each.restarted for each in kept]),
        ):
            at = [place for place, is_so in zip(places, changed, strict=True) if is_so]
            if not at or not self.marks:
                continue
            path = "".join(f"M{place * step} 0v{high}" for place in at[-self.marks :])
            silver, orange = (silver + path, orange) if name == "rescaled" else (silver, path)
            said.append(f"{color} lines: {name}")
        if any(each.stand_in is not None for each in kept):
            said.append("where no batch completed, R is the age of the one in progress")
        if orange:
            lanes.insert(0, f"<path stroke='orange' d='{orange}'/>")
        lanes.insert(0, f"<path stroke='silver' d='{silver}'/>")
        if self.times:
            high += _TIMES
            texts.append(_ends(high - 2, f"-{span_of_all.replace(' ', '')}", "now"))
        svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDE + _TEXT}' height='{high}' "
            f"fill='none' font-size='10'>{''.join(lanes)}<g fill='gray'>{''.join(texts)}</g></svg>"
        )
        source = svg.replace("<", "%3C").replace(">", "%3E")
        words = "; ".join(said)
        return f"![](<data:image/svg+xml,{source}>)" + (f"\n\n{words}" if words else "")

    def _lanes(self, places: Sequence[int], step: int) -> tuple[list[str], list[str], str]:
        """The lines of what was measured, their names and numbers, and the line where R is 1."""
        kept, latest = self.buckets.kept, self.buckets.latest
        assert latest is not None
        measured = [each.ratio for each in kept if each.ratio is not None]
        lanes: list[str] = []
        texts: list[str] = []
        line = ""
        for name, color, values, present in (
            ("R", "red", [each.load for each in kept], latest.load),
            ("executors", "blue", [each.executors for each in kept], latest.executors),
            ("lag (s)", "green", [each.lag for each in kept], latest.lag),
        ):
            known = [value for value in values if value is not None]
            if not known:
                continue
            y, top = len(lanes) * _LANE, max(1, *known)
            if name == "R":
                top = max(1, *measured, min(CLIPPED, top))
                line = f"M0 {y + _height(1, top)}h{_WIDE}"
            heights = [None if value is None else _height(value, top) for value in values]
            if name.startswith("lag"):
                heights = _calmed(heights)
            lanes.append(f"<path stroke='{color}' d='{_path(places, heights, step, y)}'/>")
            # What is not known now is a dash, whatever it was before.
            text = f"{name} {DASH if present is None else f'{present:.3g}'}"
            if max(known) != present:
                text += f", max {max(known):.3g}"
            texts.append(_text(_WIDE + 4, y + 14, text))
        return lanes, texts, line


def _text(x: int, y: int, text: str) -> str:
    return f"<text x='{x}' y='{y}'>{text}</text>"


def _ends(y: int, first: str, last: str) -> str:
    """Two words, below both ends of the lanes: shorter than two texts."""
    between = _WIDE - _LETTER * len(first + last)
    return f"<text y='{y}' word-spacing='{between}'>{first} {last}</text>"


def _calmed(heights: Sequence[int | None]) -> list[int | None]:
    """`heights` without what goes up and down by a pixel: it says nothing of a lag, which depends
    on the moment of the look, and is half of the picture's characters. The highest stays."""
    calm: list[int | None] = []
    last: int | None = None
    for height in heights:
        if height is not None and (last is None or not height or abs(height - last) > 1):
            last = height
        calm.append(None if height is None else last)
    return calm


def _path(places: Sequence[int], heights: Sequence[int | None], step: int, shift: int) -> str:
    """A path through `heights`; with a gap where one is not known."""
    pieces: list[tuple[int, list[int]]] = []
    last = None
    for place, height in zip(places, heights, strict=True):
        if height is None:
            continue
        if last is None or place != last + 1:
            pieces.append((place, []))
        pieces[-1][1].append(height)
        last = place
    path = ""
    for place, drawn in pieces:
        path += f"M{place * step} {drawn[0] + shift}"
        if len(drawn) == 1:
            path += f"h{step - _GAP}"  # a point is not seen without a length
            continue
        steps = []
        for down, alike in groupby(after - before for before, after in pairwise(drawn)):
            count = len(list(alike))
            steps += [(step, down)] * count if down else [(step * count, 0)]
        path += "l" + " ".join(f"{wide}{' ' if down >= 0 else ''}{down}" for wide, down in steps)
    return path


def _height(value: float, top: float) -> int:
    return _HIGH - round(_HIGH * min(max(0, value), top) / top)


def _worse(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _latest(before: int | None, now: int | None) -> int | None:
    return before if now is None else now


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other
