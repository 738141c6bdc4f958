"""In which time batches gathered their records: how full the fullest was, how old its oldest. Pure.

A batch of DStreams has the records of one interval. One of Structured Streaming has those that came
since the batch before began: where that one took longer than its interval, it has more of them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dagster_sparkscale.observe.status import Batch


class Gathered(NamedTuple):
    """A batch, and in which time it gathered its records."""

    batch: Batch
    seconds: float | None
    """The time; None: not known."""
    doubtful: bool
    """Whether it may have been planned by a query that died since, or the one before it."""


def gathered(
    batches: Sequence[Batch], before: Batch | None, interval: float, queues: bool, paced: bool
) -> list[Gathered]:
    """The batches that did not fail.

    Args:
        batches: of one query, in order of time; those that failed, too.
        before: the batch before them; None: it is not known. What the first of Structured Streaming
            has gathered is not known either, then.
        interval: the batch interval, seconds.
        queues: whether there is a batch each interval and they wait for each other, as with
            DStreams.
        paced: whether the trigger has an interval. False: a batch begins as soon as one can.
    """
    found: list[Gathered] = []
    began: float | None = None
    doubtful = 0
    for batch in batches if before is None else (before, *batches):
        if batch.failed:
            # Its records are in the one that runs in its place.
            doubtful = 2
            continue
        last, began = began, batch.completed_at - batch.processing_ms / 1000
        if queues:
            found.append(Gathered(batch, interval, False))
        else:
            seconds = None if last is None else max(interval if paced else 0.0, began - last)
            found.append(Gathered(batch, seconds, doubtful > 0))
        doubtful = 1 if batch.cold else max(0, doubtful - 1)
    # Of the one before only its begin counts.
    return found if before is None or before.failed else found[1:]


def fullest(batches: Iterable[Gathered], interval: float) -> float | None:
    """Records per second of the fullest batch: its records / the seconds in which they came.

    Batches that begin as soon as one can are put together until they have gathered for an interval:
    in less, a rate is chance. Not known of the first batch of a driver, or the first after one that
    failed, as that may be one which was planned before; nor of the next one, which then has all
    that came since that plan.

    Args:
        interval: the batch interval, seconds.
    """
    rates = []
    records, seconds = 0, 0.0
    for each in batches:
        if each.batch.records is None or each.seconds is None or each.doubtful:
            continue
        records, seconds = records + each.batch.records, seconds + each.seconds
        if seconds >= interval:
            rates.append(records / seconds)
            records, seconds = 0, 0.0
    return max(rates, default=None)


def latest(batches: Iterable[Gathered], interval: float, queues: bool, paced: bool) -> float | None:
    """Seconds from when the oldest record of a batch came until that batch was done, of the latest
    batch; at least, where the one before it is not known.

    Args:
        interval, queues, paced: as of `gathered`.
    """
    least = interval if paced else 0.0
    delays = [
        # What a trigger of Structured Streaming waited for is within the time its batch gathered.
        (each.seconds or least)
        + ((each.batch.scheduling_ms or 0) * queues + each.batch.processing_ms) / 1000
        for each in batches
        if each.batch.processing_ms or each.batch.records
    ]
    return max(delays, default=None)
