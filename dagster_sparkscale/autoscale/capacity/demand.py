"""What a stream would have to do: the demand of a minute, and how much of it waits. Pure.

A minute says what batches have done; the demand is what came: what was done, and by how much more
waits than before. A batch of DStreams has the records of one interval, so it tells the demand as it
was, however late it is.
"""

from typing import NamedTuple, Protocol

from dagster_sparkscale.observe.minutes import Minute

_MOST_TIMES = 4.0
"""How much more than is taken may come, by a lag that grows."""


class MinuteBefore(Protocol):
    """What is known of the minute before."""

    @property
    def at(self) -> int: ...
    @property
    def backlog(self) -> int | None: ...
    @property
    def lag(self) -> float | None: ...


class Demand(NamedTuple):
    """What came in one minute, records per second."""

    mean: float
    peak: float
    """The rate of the fullest batch; as much as `mean`, at least."""
    records: float
    """A batch has so many, on average."""
    waiting: float
    """Seconds of `mean` that wait beyond what is usual between two batches."""
    slack: float
    """Seconds of it that may wait without being late."""


def demand(minute: Minute, before: MinuteBefore | None, interval: float) -> Demand | None:
    """The demand of a minute; None: not known.

    Args:
        before: the minute before it, of the same driver; None: it is missing.
        interval: the batch interval, seconds.
    """
    done = minute.input_rate
    if done is None or not minute.completed:
        return None
    records = 0.0
    if minute.processed_rate is not None and minute.processing_ms:
        records = minute.processed_rate * minute.processing_ms / 1000
    mean = _mean(minute, before, done, records, interval)
    if mean is None:
        return None
    peak = mean if minute.peak_rate is None else max(mean, minute.peak_rate)
    return Demand(mean, peak, records, _waiting(minute, mean, interval), slack(minute, interval))


def slack(minute: Minute, interval: float) -> float:
    """Seconds of the load that may wait without being late: an interval; of Structured Streaming
    half of it, as the next batch gathers for as long as one takes."""
    return interval if minute.pending is not None else interval / 2


def _mean(
    minute: Minute, before: MinuteBefore | None, done: float, records: float, interval: float
) -> float | None:
    if minute.pending is not None:
        came = records / interval
        if minute.backlog is None or minute.pending < 2:
            return came
        # The batches that wait have the newest records.
        return max(came, minute.backlog / ((minute.pending - 1) * interval))
    told = before is not None and (
        None not in (minute.backlog, before.backlog) or None not in (minute.lag, before.lag)
    )
    if minute.throttled is not None and not told:
        return None
    if before is not None and (found := _with_what_waits(minute, before, done, interval)):
        return found
    peak = minute.peak_rate
    if peak is not None and _is_late(minute, interval):
        # Batches had gathered for longer than an interval: what they have done in this minute came
        # in others as well. Their own rate is the demand's.
        return peak
    return done if peak is None else min(done, peak)


def _with_what_waits(
    minute: Minute, before: MinuteBefore, done: float, interval: float
) -> float | None:
    """What was done and by how much more waits in the source; None: nothing does, or not more."""
    seconds = minute.at - before.at
    if minute.backlog is not None and before.backlog is not None:
        if not minute.backlog and not before.backlog:
            return None
        # One batch more or less between two looks is no change.
        change, usual = (minute.backlog - before.backlog) / seconds, done * interval / seconds
        return max(0.0, done + max(0.0, change - usual) + min(0.0, change + usual))
    if minute.lag is not None and before.lag is not None:
        change, usual = minute.lag - before.lag, 2 * interval
        if abs(change) <= usual:
            return None
        grown = (change - usual if change > 0 else change + usual) / seconds
        return done / min(_MOST_TIMES, max(1 / _MOST_TIMES, 1 - grown))
    return None


def _is_late(minute: Minute, interval: float) -> bool:
    return minute.delay is not None and minute.delay > 2 * interval


def _waiting(minute: Minute, mean: float, interval: float) -> float:
    taken = (minute.processing_ms or 0.0) / 1000
    if minute.pending is not None:
        waiting = max((minute.pending - 2) * interval, (minute.scheduling_ms or 0.0) / 1000)
    else:
        # The next batch gathers for as long as one takes.
        waiting = taken - interval
        if minute.backlog and mean:
            waiting = max(waiting, minute.backlog / mean)
        elif minute.lag is not None:
            waiting = max(waiting, minute.lag - interval - taken)
    if minute.overdue is not None:
        waiting = max(waiting, (minute.overdue - 1) * interval)
    return max(0.0, waiting)
