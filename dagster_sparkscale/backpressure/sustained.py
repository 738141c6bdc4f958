"""What a stream sustains, by its minutes of hours to weeks; or that they do not say. Pure.

Records per second of processing time and executor, as DS2 has it (Kalavri et al., OSDI 2018: true
processing rate), and unlike the input's rate it says what a stream could do also while a limit or
a low load keeps it from doing so. Small batches say too little, as much of their time is spent on
other things than records: so only minutes count that were loaded, or stood near their limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

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
    """The same, of the twentieth of them with most."""
    largest_batch: float
    """Records; of the minute with the largest batches on average."""
    loaded: int
    """Minutes."""
    throttled: int
    """Minutes in which its input stood at its limit."""
    tiny: float
    """Share of the minutes with work that were spent on other things than records: batches took
    a fifth of their interval or more, and did less than a fifth of what loaded ones do."""
    hours: float
    """With work."""
    notes: tuple[str, ...] = ()
    """What was left out, and what gaps there are; for people."""


@dataclass(frozen=True)
class NotEnough:
    """The minutes do not say what the stream sustains."""

    why: str


def sustained(minutes: Sequence[Minute], interval: float) -> Sustained | NotEnough:
    """What the minutes of a stream say of what it sustains.

    Args:
        minutes: in order of time; with gaps, of several drivers, with executors that come and go.
        interval: the batch interval, in seconds.
    """
    work, notes = _with_work(minutes)
    each = max(_TICK, interval)
    hours = len(work) * each / 3600
    batches = sum(minute.completed or 0 for minute in work)
    loaded = [minute for minute in work if _loaded(minute)]
    least = max(3, round(LEAST_LOADED * _TICK / each))
    told = "; ".join(notes)
    if hours < LEAST_HOURS or batches < LEAST_BATCHES:
        return NotEnough(
            f"not enough history: {hours:.1f} h with work on {batches} batches, at least "
            f"{LEAST_HOURS:g} h on {LEAST_BATCHES} are needed" + (f" ({told})" if told else "")
        )
    if len(loaded) < least:
        most = max(minute.ratio or 0.0 for minute in work)
        return NotEnough(
            f"not enough history: of {hours:.1f} h with work {len(loaded)} minutes had an R of at "
            f"least {LOADED:g}, or half of the input that the limits allow, and {least} are needed "
            f"to tell what the stream sustains; its highest R was {most:.2f}"
            + (f" ({told})" if told else "")
        )
    rates = sorted(_rate(minute) for minute in loaded)
    inputs = sorted(minute.input_rate or 0.0 for minute in work)
    low = quantile(rates, LOW)
    tiny = [
        minute for minute in work if (minute.ratio or 0.0) >= _TINY and _rate(minute) < _TINY * low
    ]
    return Sustained(
        low=low,
        high=quantile(rates, HIGH),
        executors=float(median(minute.registered or 0 for minute in work)),
        fewest=min(minute.registered or 0 for minute in loaded),
        most=max(minute.registered or 0 for minute in loaded),
        input_rate=float(median(inputs)),
        input_peak=quantile(inputs, 0.95),
        largest_batch=max(_batch(minute) for minute in work),
        loaded=len(loaded),
        throttled=sum(1 for minute in work if minute.throttled is not None),
        tiny=len(tiny) / len(work),
        hours=hours,
        notes=notes,
    )


_TINY = 0.2


def _with_work(minutes: Sequence[Minute]) -> tuple[list[Minute], tuple[str, ...]]:
    """The minutes that say how fast records are worked on, and why others were left out."""
    began: dict[int | None, int] = {}
    work = []
    starts = failed = changing = gaps = 0
    silence = longest = 0.0
    before: Minute | None = None
    for minute in minutes:
        first = began.setdefault(minute.epoch, minute.at)
        if before is not None and minute.at - before.at > GAP:
            gaps, silence = gaps + 1, silence + minute.at - before.at
            longest = max(longest, minute.at - before.at)
        changed = before is not None and before.registered != minute.registered
        before = minute
        if not _worked(minute):
            continue
        if minute.at - first < START:
            starts += 1
        elif minute.failed:
            failed += 1
        elif changed:
            changing += 1  # its batches had both numbers of executors
        else:
            work.append(minute)
    notes = []
    if gaps:
        span = f"the longest {longest / 3600:.1f} h"
        notes.append(f"{gaps} gaps of {silence / 3600:.1f} h in all, {span}")
    for count, of in (
        (starts, "of starts"),
        (failed, "with failed batches"),
        (changing, "in which executors came or went"),
    ):
        if count:
            notes.append(f"{count} minutes {of} were left out")
    return work, tuple(notes)


def _worked(minute: Minute) -> bool:
    """Whether all is measured that says how fast its records were worked on."""
    return bool(
        minute.state == "running"
        and minute.registered
        and minute.processed_rate
        and minute.input_rate
        and minute.processing_ms
        and minute.ratio is not None
    )


def _loaded(minute: Minute) -> bool:
    near = minute.limit is not None and (minute.input_rate or 0.0) >= LOADED * minute.limit
    return near or minute.throttled is not None or (minute.ratio or 0.0) >= LOADED


def _rate(minute: Minute) -> float:
    """Records per second of processing time and executor."""
    assert minute.processed_rate and minute.registered
    return minute.processed_rate / minute.registered


def _batch(minute: Minute) -> float:
    """Records of one of its batches, on average."""
    assert minute.processed_rate and minute.processing_ms
    return minute.processed_rate * minute.processing_ms / 1000


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of them is, one of them itself.

    Args:
        ordered: ascending, at least one.
    """
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
