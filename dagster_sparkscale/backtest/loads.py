"""What comes into a stream over time: records per second, in steps of one length."""

import csv
import gzip
import math
import reprlib
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Self

HEADER = ("seconds", "records_per_second")
"""The first line of a file with a load."""
_UNEVEN = 1e-3
"""Share of the step by which a row may be early or late: times are often rounded."""


@dataclass(frozen=True)
class Load:
    """Records per second by time. What comes within a step comes evenly."""

    name: str
    step: float
    """Seconds that each rate is of."""
    rates: tuple[float, ...]
    """Records per second, from second 0 on."""

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            ValueError: there is no rate, the step is not above 0, or a rate is below 0 or no
                number.
        """
        if not 0 < self.step < math.inf:
            raise ValueError(f"step = {self.step!r}: must be seconds, above 0")
        if not self.rates:
            raise ValueError("rates = (): must have the rate of one step at least")
        wrong = next((rate for rate in self.rates if not 0 <= rate < math.inf), None)
        if wrong is not None:
            raise ValueError(f"rates: {wrong!r} must be records per second, at least 0")
        if not self.records < math.inf:
            raise ValueError(f"rates: {self.peak!r} must be less: they make more records than fit")

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.step * len(self.rates)

    @cached_property
    def _arrived(self) -> list[float]:
        """Records that have come when each step begins, and at the end."""
        return [0.0, *accumulate(rate * self.step for rate in self.rates)]

    @property
    def records(self) -> float:
        """How many come in all."""
        return self._arrived[-1]

    @property
    def mean(self) -> float:
        """Records per second over all of it."""
        return self.records / self.seconds

    @property
    def peak(self) -> float:
        """Records per second of its highest step."""
        return max(self.rates)

    def rate(self, at: float) -> float:
        """Records per second at a moment, in seconds from its beginning; 0 where it is over."""
        index = int(at // self.step)
        return self.rates[index] if 0 <= index < len(self.rates) else 0.0

    def arrived(self, at: float) -> float:
        """Records that have come until a moment, in seconds from its beginning."""
        place = at / self.step
        index = int(place)
        if index >= len(self.rates):
            return self._arrived[-1]
        return self._arrived[index] + (place - index) * self.step * self.rates[index]

    def came(self, records: float) -> float:
        """When so many records had come, seconds from its beginning; the end where fewer come."""
        if records <= 0:
            return 0.0
        index = bisect_right(self._arrived, records) - 1
        if index >= len(self.rates):
            return self.seconds
        return index * self.step + (records - self._arrived[index]) / self.rates[index]

    def scaled(self, factor: float) -> Self:
        """The load with each rate times `factor`."""
        return replace(self, rates=tuple(rate * factor for rate in self.rates))

    def part(self, begin: float, end: float) -> Self:
        """The whole steps between two moments, in seconds from its beginning.

        Raises:
            ValueError: there is no whole step between them.
        """
        first = max(0, math.ceil(begin / self.step - _UNEVEN))
        last = min(len(self.rates), math.floor(end / self.step + _UNEVEN))
        if first >= last:
            raise ValueError(
                f"begin = {begin:g}, end = {end:g}: must have a whole step of {self.step:g} s "
                f"between them, and within the {self.seconds:g} s of load {self.name!r}"
            )
        return replace(self, rates=self.rates[first:last])

    def in_steps(self, step: float) -> Self:
        """The load by means of longer steps, which are whole numbers of its own; what is left over
        at its end is left out.

        Raises:
            ValueError: `step` is no whole number of its steps, or longer than the load.
        """
        count = round(step / self.step)
        if count < 1 or abs(count * self.step - step) > _UNEVEN * step:
            raise ValueError(f"step = {step:g}: must be a whole number of {self.step:g} s")
        ends = range(count, len(self.rates) + 1, count)
        if not ends:
            raise ValueError(f"step = {step:g}: must be within the {self.seconds:g} s of the load")
        means = tuple(sum(self.rates[end - count : end]) / count for end in ends)
        return replace(self, step=step, rates=means)


def read_csv(path: str | Path) -> Load:
    """The load of a CSV file, which may be compressed by gzip (its name ends in `.gz`).

    The first line is `seconds,records_per_second`; each further one has the moment at which a step
    begins, and the mean rate of that step. The steps are of one length.

    Raises:
        ValueError: the file has another form; the error names the file and the line.
        OSError: the file can't be read.
    """
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file)]
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path}: must be CSV: {error}") from None
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    try:
        times, rates = _columns(rows)
        return Load(name, _step_of(times), tuple(rates))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _columns(rows: Sequence[Sequence[str]]) -> tuple[list[float], list[float]]:
    head = tuple(each.strip() for each in rows[0]) if rows else ()
    if head != HEADER:
        raise ValueError(f"line 1 = {reprlib.repr(','.join(head))}: must be {','.join(HEADER)!r}")
    times, rates = [], []
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            at, rate = map(float, row)
        except ValueError:
            shown = reprlib.repr(",".join(row))
            raise ValueError(f"line {line} = {shown}: must be two numbers, {HEADER}") from None
        if not math.isfinite(at):
            raise ValueError(f"line {line}: seconds = {at}: must be a finite number")
        if not 0 <= rate < math.inf:
            raise ValueError(f"line {line}: records_per_second = {rate}: must be at least 0")
        times.append(at)
        rates.append(rate)
    return times, rates


def _step_of(times: Sequence[float]) -> float:
    if len(times) < 2:
        raise ValueError(f"{len(times)} rows: must be two at least, which tell the step")
    step = (times[-1] - times[0]) / (len(times) - 1)
    steps = [(number, after - before) for number, (before, after) in enumerate(pairwise(times))]
    # Of the first that is odd, as the mean is of all.
    usual = sorted(length for _, length in steps)[len(steps) // 2]
    for number, length in steps:
        if usual <= 0 or abs(length - usual) > max(_UNEVEN * usual, 2e-3):
            raise ValueError(
                f"line {number + 3}: seconds = {times[number + 1]:g} is {length:g} s after the "
                f"line before: must be one step of {usual:g} s"
            )
    return step if abs(step - usual) > _UNEVEN * usual else usual


def constant(rate: float, seconds: float, step: float = 60.0, name: str = "constant") -> Load:
    """A load that never changes."""
    return Load(name, step, (rate,) * max(1, round(seconds / step)))


def joined(loads: Iterable[Load], name: str) -> Load:
    """Loads of one step, one after the other.

    Raises:
        ValueError: their steps differ, or there is none.
    """
    parts = list(loads)
    steps = {part.step for part in parts}
    if len(steps) != 1:
        raise ValueError(f"steps = {sorted(steps)}: must be one")
    return Load(name, steps.pop(), tuple(rate for part in parts for rate in part.rates))
