"""What a stream sustains, by its minutes of hours to weeks; or that they do not say. Pure.

Records per second of processing time and executor, as DS2 has it (Kalavri et al., OSDI 2018: true
processing rate), and unlike the input's rate it says what a stream could do also while a limit or
a low load keeps it from doing so. Small batches say too little, as much of their time is spent on
other things than records: so only minutes count that were loaded, or stood near their limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dagster_sparkscale.observe.evaluation import PERSON
from dagster_sparkscale.observe.minutes import Minute

LEAST_HOURS = 6.0
"""Hours of minutes with work, below which nothing is said."""
LEAST_BATCHES = 100
LEAST_LOADED = 30
"""Loaded minutes, below which nothing is said; each stands for a batch interval at least."""
LOADED = 0.5
"""R, or the share of the limit in force, from which on a minute is loaded."""
START = 180.0
"""Seconds after the first sight of a driver that are a start: code is loaded, a backlog waits."""
GAP = 600.0
"""Seconds without a minute that are a gap worth telling of. Ticks come every 60 to 65 s."""
LOW, HIGH = 0.1, 0.9
"""Quantiles of what an executor does: what it nearly always does, and what it does at its best."""
_TICK = 60.0


@dataclass(frozen=True)
class Sustained:
    """What the loaded minutes of a stream say."""

    low: float
    """Records per second of processing time and executor: a tenth of the minutes have less."""
    high: float
    """A tenth of the minutes have more."""
    executors: float
    """Median of the minutes with work."""
    fewest: int
    most: int
    """Executors of the loaded minutes."""
    input_rate: float
    """Records per second that came in; median of the minutes with work."""
    input_peak: float
    """The input in the busiest twentieth of the minutes."""
    largest_batch: float
    """Records of its large batches: of half an hour's worth of minutes they were larger on average.
    One large minute says nothing that a limit is to follow."""
    loaded: int
    """Minutes."""
    throttled: int
    """Minutes in which its input stood at its limit."""
    tiny: float
    """Share of the minutes with work that were spent on other things than records: batches took
    a fifth of their interval or more, and did less than a fifth of what loaded ones do."""
    hours: float
    """The hours with work."""
    notes: tuple[str, ...] = ()
    """What was left out, and what gaps there are; for people."""


def sustained(minutes: Sequence[Minute], interval: float) -> Sustained | str:
    """What the minutes of a stream say of what it sustains; or why they do not say, in words.

    Args:
        minutes: in order of time; with gaps, of several drivers, with executors that come and go.
        interval: the batch interval, in seconds.
    """
    work, notes = _with_work(minutes)
    each = max(_TICK, interval)
    hours = len(work) * each / 3600
    batches = sum(minute.batches for minute in work)
    loaded = [minute for minute in work if minute.loaded]
    least = max(3, round(LEAST_LOADED * _TICK / each))
    also = f" ({'; '.join(notes)})" if notes else ""
    if hours < LEAST_HOURS or batches < LEAST_BATCHES:
        return (
            f"not enough history: {hours:.1f} h with work and {batches} batches; it needs "
            f"{LEAST_HOURS:g} h and {LEAST_BATCHES} batches{also}"
        )
    if len(loaded) < least:
        most = max(minute.ratio for minute in work)
        return (
            f"not enough history: of {hours:.1f} h with work {len(loaded)} minutes had an R of at "
            f"least {LOADED:g}, or half of the input that the limits allow, and {least} are needed "
            f"to tell what the stream sustains; its highest R was {most:.2f}{also}"
        )
    rates = sorted(minute.rate for minute in loaded)
    low = quantile(rates, LOW)
    tiny = [each for each in work if each.ratio >= _TINY and each.rate < _TINY * low]
    return Sustained(
        low=low,
        high=quantile(rates, HIGH),
        executors=float(median(minute.executors for minute in work)),
        fewest=min(minute.executors for minute in loaded),
        most=max(minute.executors for minute in loaded),
        input_rate=float(median(minute.input_rate for minute in work)),
        input_peak=quantile(sorted(minute.input_rate for minute in work), 0.95),
        largest_batch=sorted((minute.batch for minute in work), reverse=True)[least - 1],
        loaded=len(loaded),
        throttled=sum(1 for minute in work if minute.throttled),
        tiny=len(tiny) / len(work),
        hours=hours,
        notes=notes,
    )


_TINY = 0.2


@dataclass(frozen=True)
class _Work:
    """A minute of which all is measured that says how fast records are worked on."""

    ratio: float
    executors: int
    rate: float
    """Records per second of processing time and executor."""
    input_rate: float
    batch: float
    """Records of one of its batches, on average."""
    batches: int
    throttled: bool
    loaded: bool


def _with_work(minutes: Sequence[Minute]) -> tuple[list[_Work], tuple[str, ...]]:
    """The minutes that say how fast records are worked on, and why others were left out."""
    began: dict[int | None, int] = {}
    work = []
    starts = failed = changing = calmed = gaps = 0
    silence = longest = 0.0
    before: Minute | None = None
    for minute in minutes:
        first = began.setdefault(minute.epoch, minute.at)
        if before is not None and minute.at - before.at > GAP:
            gaps, silence = gaps + 1, silence + minute.at - before.at
            longest = max(longest, minute.at - before.at)
        changed = before is not None and before.registered != minute.registered
        before = minute
        if (worked := _worked(minute)) is None:
            continue
        if minute.at - first < START:
            starts += 1
        elif minute.failed:
            failed += 1
        elif changed:
            changing += 1  # its batches had both numbers of executors
        elif minute.limit_by == PERSON:
            calmed += 1  # it did what it was let do
        else:
            work.append(worked)
    notes = []
    if gaps:
        span = f"the longest {longest / 3600:.1f} h"
        notes.append(f"{gaps} gaps of {silence / 3600:.1f} h in all, {span}")
    for count, of in (
        (starts, "of starts"),
        (failed, "with failed batches"),
        (changing, "in which executors came or went"),
        (calmed, "under a limit that a person had set"),
    ):
        if count:
            notes.append(f"{count} minutes {of} were left out")
    return work, tuple(notes)


def _worked(minute: Minute) -> _Work | None:
    """What a minute says of how fast records are worked on; None: something was not measured, or
    there were no records."""
    ratio, executors, limit = minute.ratio, minute.registered, minute.limit
    processed, came, took = minute.processed_rate, minute.input_rate, minute.processing_ms
    if minute.state != "running" or ratio is None:
        return None
    if not (executors and processed and came and took):
        return None
    throttled = minute.throttled is not None
    near = limit is not None and came >= LOADED * limit
    return _Work(
        ratio=ratio,
        executors=executors,
        rate=processed / executors,
        input_rate=came,
        batch=processed * took / 1000,
        batches=minute.completed or 0,
        throttled=throttled,
        loaded=near or throttled or ratio >= LOADED,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them is, one of them itself.

    Args:
        ordered: at least one value, ascending.
    """
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
