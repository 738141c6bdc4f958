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
class InForce:
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


def usual(measured: Sustained, now: InForce) -> float:
    """Executors that the stream usually has, as far as its bounds allow them by now."""
    return min(measured.executors, now.most) if now.most is not None else measured.executors


OPEN_END = "it can't be told how many executors there may be: declare max_executors"
"""Why no limit is lowered where an autoscaler has no maximum."""


def open_ended(before: float | None, after: float, now: InForce) -> bool:
    """Whether a lower limit would hold back executors that an autoscaler may add, nobody knows how
    many."""
    return now.scaled and now.most is None and (before is None or after < before)


def meant(measured: Sustained, now: InForce) -> tuple[float, str]:
    """How many executors a limit is for that is read once per start, and why, in words.

    Where an autoscaler adds executors, as many as there may be: a limit for fewer would hold back
    what the others could do, and nothing would raise it when they come.
    """
    if not now.scaled:
        executors = usual(measured, now)
        return executors, f"the stream usually has {executors:g} executors"
    if now.most is None:
        return measured.most, f"the stream had up to {measured.most} executors"
    return now.most, f"the stream may have {now.most} executors"


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


def comes(measured: Sustained, before: float | None, after: float) -> float:
    """Records per second that come in, which a limit has to let through: where it is a lower one,
    also in the hours with most of them. A stream that keeps up by day is not to fall behind then
    for what its batches do by night.

    Args:
        before: the limit in force; None: there is none.
        after: the other.
    """
    return measured.input_peak if before is None or after < before else measured.input_rate


def too_much(measured: Sustained, executors: float, sustains: float, come: float) -> str:
    """Say why a limit would not do.

    Args:
        sustains: records per second.
        come: as `comes` has it.
    """
    at_times = " in the hours with most" if come > measured.input_rate else ""
    return (
        f"{number(come)} records/s come in{at_times}, and with {executors:g} executors the stream "
        f"sustains {number(sustains)}: that takes more executors, a limit would only make it fall "
        "behind"
    )


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
