"""What came into a stream, by its own minutes: its load, where it is known.

Batches of DStreams have one interval's records each. So the batches that a minute has completed
cover their intervals without a gap to those of the minute before, however long they waited. A batch
of Structured Streaming takes what has come since the one before began. What a limit has left in the
source is known by the lag, which tells when the oldest of it came, or by the backlog. Within a
minute the fullest batch is known. Where minutes are missing, nothing is: a gap stays a gap. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.minutes import Minute

GAP = 3.0
"""Windows between two minutes above which what was in between is not known. Ticks come a little
further apart than a window is long, and now and then one is missed: an evaluation looks back as
far."""
LEAST = 10
"""Minutes without a gap below which they are left out."""
_AT_LIMIT = 0.95
"""Share of its limit from which on an input stands at it."""
_BURST = 1.5
"""Times the mean of a minute, from which on its fullest batch is one of a burst, which has all of
the records; below it is one of many that differ by chance."""
_EARLY = 0.9
"""Share of a window after which the next minute is a window of its own."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes without a gap, and what came in the meantime."""

    began_at: float
    """Second 0 of the load, seconds since the epoch."""
    load: Load
    minutes: tuple[Minute, ...]
    doubtful: frozenset[int]
    """When the minutes were, seconds since the epoch, whose load may have been another: a limit
    kept records back, or no more executors could come and batches took too long."""

    @property
    def ticks(self) -> list[float]:
        """When the minutes were, seconds from the beginning."""
        return [minute.at - self.began_at for minute in self.minutes]


def stretches(
    minutes: Sequence[Minute],
    workload: Workload,
    *,
    window: float = 60.0,
    maximum: int | None = None,
) -> list[Stretch]:
    """The stretches of known minutes, in order.

    Args:
        minutes: in order of time.
        window: seconds that each minute is about, at least: the interval of the policy.
        maximum: the most executors there could be; None: not known.
    """
    found = []
    for part in _without_gaps(thinned(minutes, window), GAP * window):
        if len(part) < LEAST or (stretch := _stretch(part, workload, maximum)) is None:
            continue
        if (
            stretch.load.seconds >= window
        ):  # less is known where nothing came after its first minute
            found.append(stretch)
    return found


def thinned(minutes: Sequence[Minute], window: float) -> list[Minute]:
    """The minutes that are about times of their own."""
    found: list[Minute] = []
    for minute in minutes:
        if not found or minute.at - found[-1].at >= _EARLY * window:
            found.append(minute)
    return found


def per_batch(minute: Minute) -> float | None:
    """Records of a batch, on average; None: not measured."""
    if minute.completed is None or minute.input_rate is None or minute.processing_ms is None:
        return None
    if not minute.input_rate:
        return 0.0
    # Both are of the same batches, however long the minute was.
    rate = minute.processed_rate
    return None if rate is None else rate * minute.processing_ms / 1000


def _without_gaps(minutes: Sequence[Minute], longest: float) -> Iterator[list[Minute]]:
    part: list[Minute] = []
    for minute in minutes:
        known = minute.completed is not None and minute.registered is not None
        last = part[-1] if part else None
        if last is not None and (
            not known or minute.at - last.at > longest or minute.epoch != last.epoch
        ):
            yield part
            part = []
        if known:
            part.append(minute)
    yield part


def _stretch(minutes: Sequence[Minute], workload: Workload, maximum: int | None) -> Stretch | None:
    interval = workload.batch_interval
    # Until when the batches of a minute have gathered, and the records that have come until then.
    knots: list[tuple[float, float]] = [(_gathered_until(minutes[0], interval), 0.0)]
    for last, minute in pairwise(minutes):
        records = per_batch(minute)
        if not minute.completed or records is None:
            continue
        until, (since, before) = _gathered_until(minute, interval), knots[-1]
        # One of DStreams that has failed had an interval's records as well.
        failed = (minute.failed or 0) if minute.pending is not None else 0
        came = records * (minute.completed + failed)
        if minute.lag is None and minute.pending is None:
            came = max(0.0, came + (minute.backlog or 0) - (last.backlog or 0))
        if until - since < interval / 2:
            # Ticks are not in step with batches: what belongs together is put together.
            knots[-1] = (since, before + came)
            continue
        knots += _shaped(since, until, before, came, minute, interval)
    began_at, ended = knots[0][0], knots[-1][0]
    steps = int((ended - began_at) / interval + 1e-6)
    if steps < LEAST:
        return None
    counts = [_at(knots, began_at + step * interval) for step in range(steps + 1)]
    # Not below 0, as digits that are lost in sums of a whole history would have it.
    rates = tuple(max(0.0, after - before) / interval for before, after in pairwise(counts))
    doubtful = frozenset(minute.at for minute in minutes if _is_doubtful(minute, interval, maximum))
    return Stretch(began_at, Load("recorded", interval, rates), tuple(minutes), doubtful)


def _gathered_until(minute: Minute, interval: float) -> float:
    """Until when the batches had gathered that were done, seconds since the epoch."""
    if minute.pending is not None:
        behind = minute.pending * interval
    else:
        took = (minute.processing_ms or 0.0) / 1000
        # One that takes longer than its interval is done at any time of the next one.
        behind = interval if took <= interval else 1.5 * took
    return minute.at - behind - (minute.lag or 0.0)


def _shaped(
    since: float, until: float, before: float, came: float, minute: Minute, interval: float
) -> list[tuple[float, float]]:
    """The knots of one minute, which has its fullest batch in the middle."""
    end = (until, before + came)
    seconds = until - since
    mean = came / seconds
    peak = minute.peak_rate or 0.0
    if not came or peak <= 1.02 * mean or seconds < 2 * interval:
        return [end]
    full = came / peak
    if peak < _BURST * mean:
        full = min(full, interval)
    # Full batches are whole ones.
    earlier = (seconds - full) / 2 // interval * interval
    rest = (came - full * peak) * earlier / (seconds - full)
    begins = since + earlier
    return [(begins, before + rest), (begins + full, before + rest + full * peak), end]


def _at(knots: Sequence[tuple[float, float]], moment: float) -> float:
    """The records that had come by a moment."""
    index = bisect_right(knots, (moment, float("inf")))
    if index >= len(knots):
        return knots[-1][1]
    (since, before), (until, after) = knots[index - 1], knots[index]
    return before + (after - before) * (moment - since) / (until - since)


def _is_doubtful(minute: Minute, interval: float, maximum: int | None) -> bool:
    if minute.throttled is not None:
        return True
    limit, rate = minute.limit, minute.input_rate
    if limit is not None and rate is not None and rate >= _AT_LIMIT * limit:
        return True
    if maximum is None or minute.requested is None or minute.requested < maximum:
        return False
    return minute.ratio is None or minute.ratio >= 1
