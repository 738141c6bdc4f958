"""What a recommendation is, and what all of them have in common. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dagster_sparkscale.backpressure.throughput import Sustained
from dagster_sparkscale.quantities import number

TARGET = 0.9
"""The share of the interval that a full batch is to take: scaling up begins there (SPARK-12133)."""
FURTHEST = 3.0
"""Times the largest batches that were seen: no limit is raised beyond."""


@dataclass(frozen=True)
class LimitsNow:
    """What limits a stream at present, and between which numbers it moves."""

    values: Mapping[str, float | None]
    """The values of its limits by name; None: no limit."""
    interval: float
    """The batch interval, in seconds."""
    start: int
    """Executors that a start begins with."""
    most: int | None = None
    """Executors at most; None: no bound."""
    scaled: bool = False
    """Whether an autoscaler may add executors."""
    queries: int | None = None
    """Active queries; None: not known."""
    rated: int | None = None
    """Sources that share the rates of a backpressure policy; None: not known."""
    receivers: int = 0
    max_lag: float | None = None
    """Seconds that the stream may be behind; None: nothing is declared."""


@dataclass(frozen=True)
class Recommendation:
    """Another value of one limit."""

    limit: str
    before: float | None
    """None: there was no limit."""
    after: float
    why: str
    effect: str
    """What is to be expected of it."""

    def __str__(self) -> str:
        change = f"{shown(self.before)} -> {shown(self.after)}"
        return f"{self.limit}: {change}: {self.why}; {self.effect}"


OPEN_END = "it can't be told how many executors there may be: declare max_executors"
"""Why no limit is lowered where an autoscaler has no maximum."""


@dataclass(frozen=True)
class Case:
    """A stream whose limits are looked over."""

    measured: Sustained
    now: LimitsNow
    least_gain: float
    """Share of a value by which another has to differ to be worth it."""

    @property
    def start(self) -> int:
        """Executors that a start begins with."""
        return min(self.now.start, self.now.most or self.now.start)

    @property
    def usual(self) -> float:
        """Executors that the stream usually has, as far as its bounds allow them by now."""
        most = self.now.most
        return self.measured.executors if most is None else min(self.measured.executors, most)

    @property
    def meant(self) -> tuple[float, str]:
        """How many executors a limit is for that is read once per start, and why, in words.

        Where an autoscaler adds executors, as many as there may be: a limit for fewer would hold
        back what the others could do, and nothing would raise it when they come.
        """
        if not self.now.scaled:
            return self.usual, f"the stream usually has {self.usual:g} executors"
        if self.now.most is None:
            return self.measured.most, f"the stream had up to {self.measured.most} executors"
        return self.now.most, f"the stream may have {self.now.most} executors"

    def gains(self, before: float | None, after: float) -> bool:
        """Whether a value differs enough from the one before."""
        return gains(before, after, self.least_gain)

    def open_ended(self, before: float | None, after: float) -> bool:
        """Whether a lower limit would hold back executors that an autoscaler may add, nobody knows
        how many."""
        return self.now.scaled and self.now.most is None and (before is None or after < before)

    def too_little(self, before: float | None, after: float, sustains: float) -> str | None:
        """Why a limit would not let through what comes in; None: it would. Where it is a lower
        one, that is what comes in the hours with most of it: a stream that keeps up by day is not
        to fall behind then for what its batches do by night.

        Args:
            before: the limit in force; None: there is none.
            after: the other.
            sustains: records per second that the other limit lets through.
        """
        lower = before is None or after < before
        come = self.measured.input_peak if lower else self.measured.input_rate
        if come < sustains:
            return None
        at_times = " in the hours with most" if come > self.measured.input_rate else ""
        return (
            f"{number(come)} records/s come in{at_times}, and with {self.meant[0]:g} executors the "
            f"stream sustains {number(sustains)}: that takes more executors, a limit would only "
            "make it fall behind"
        )

    def of_start(
        self, limit: str, before: float | None, after: float, share: str, unlimited: str
    ) -> Recommendation:
        """Another limit of what a start begins with.

        Args:
            share: who shares it, in words.
            unlimited: how a start begins without a limit, in words.
        """
        was = unlimited if before is None else f"with {number(before)}"
        why = f"{in_words(self.measured)}, and a start begins with {self.start} executors{share}"
        effect = f"a start begins with {number(after)} records/s and not {was}"
        return Recommendation(limit, before, after, why, effect)


def in_words(throughput: Sustained) -> str:
    """What was measured, in words."""
    return (
        f"an executor does {number(throughput.low)} records/s or more in 90 % of "
        f"{throughput.loaded} loaded minutes of {throughput.hours:.0f} h with work"
    )


def of_batch(before: float | None, after: float, speed: float, interval: float) -> str:
    """What a full batch takes by then.

    Args:
        speed: records per second that the executors do which there usually are.
    """
    takes = f"a batch after an outage takes {after / speed / interval:.1f} intervals"
    if before is None:
        return f"{takes}, and not as many as it likes"
    also = ""
    if after > before:
        was, now = number(before / interval), number(after / interval)
        also = f", and {now} records/s catch up instead of {was}"
    return f"{takes} instead of {before / speed / interval:.1f}{also}"


def safe(before: float | None, fits: float, furthest: float) -> float | None:
    """The limit that is recommended, by what fits; None: the one before is right.

    What is raised goes no further than a few times the largest batches that were seen, for memory
    and skew do not grow in proportion. What is declared is lowered to what fits and no further,
    however small batches were of late: it is there for a load that has not come yet.

    Args:
        before: the limit in force; None: there is none, and any is a lower one.
        furthest: that a limit is raised to.
    """
    if before is None or fits <= before:
        return fits
    return min(fits, furthest) if furthest > before else None


def gains(before: float | None, after: float, least: float) -> bool:
    """Whether a value differs enough from the one before; any from none at all."""
    return before is None or abs(after - before) >= least * before


def rounded(value: float) -> float:
    """Down to two significant digits."""
    if value <= 0 or not math.isfinite(value):
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    down = math.floor(value / step * (1 + 1e-12)) * step
    return float(f"{down:.2g}")


def shown(value: float | None) -> str:
    """A value of a limit, for people."""
    return "no limit" if value is None else number(value)
