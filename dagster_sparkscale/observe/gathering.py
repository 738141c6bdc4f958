"""In which time batches gathered their records: how full the fullest was, how old its oldest. Pure.

A batch of DStreams has the records of one interval. One of Structured Streaming has those that came
since the batch before began: where that one took longer than its interval, it has more of them.
"""

from collections.abc import Sequence

from dagster_sparkscale.observe.status import Batch


def fullest(
    batches: Sequence[Batch], before: Batch | None, interval: float, queues: bool
) -> float | None:
    """Records per second of the fullest batch: its records / the seconds in which they came.

    Args:
        batches: of one query, in order of time; those that failed, too.
        before: the batch before them; None: it is not known. What the first of Structured Streaming
            has gathered is not known either, then.
        interval: the batch interval, seconds.
        queues: whether there is a batch each interval and they wait for each other, as with
            DStreams.
    """
    rates = [
        batch.records / seconds
        for batch, seconds in _gathered(batches, before, interval, queues)
        if batch.records is not None and seconds is not None
    ]
    return max(rates, default=None)


def latest(
    batches: Sequence[Batch], before: Batch | None, interval: float, queues: bool
) -> float | None:
    """Seconds from when the oldest record of a batch came until that batch was done, of the latest
    batch; at least, where the one before it is not known.

    Args:
        batches, before, interval, queues: as of `fullest`.
    """
    delays = [
        # What a trigger of Structured Streaming waited for is within the time its batch gathered.
        (seconds or interval) + ((batch.scheduling_ms or 0) * queues + batch.processing_ms) / 1000
        for batch, seconds in _gathered(batches, before, interval, queues)
        if batch.processing_ms or batch.records
    ]
    return max(delays, default=None)


def _gathered(
    batches: Sequence[Batch], before: Batch | None, interval: float, queues: bool
) -> list[tuple[Batch, float | None]]:
    """The batches that did not fail, with the seconds in which their records came."""
    found = []
    began = None if before is None else _began(before)
    for batch in batches:
        last, began = began, _began(batch)
        if queues:
            seconds: float | None = interval
        else:
            seconds = None if last is None else max(interval, began - last)
        if not batch.failed:
            found.append((batch, seconds))
    return found


def _began(batch: Batch) -> float:
    return batch.completed_at - batch.processing_ms / 1000
