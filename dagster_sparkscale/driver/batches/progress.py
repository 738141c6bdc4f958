"""Reading the JSON of Structured Streaming's events. Pure: no Spark, no clock."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dagster_sparkscale.driver.tracebacks import error_of
from dagster_sparkscale.driver.wire import QueryState

from .offsets import NotKnown, behind, offsets
from .reports import whole_sum

ERROR_LENGTH = 500
"""Characters kept of why a query died."""

_FILE_SOURCE = "FileStreamSource["
"""Begins the description of each of Spark's sources for files."""
_KINDS = {
    "ProcessingTimeTrigger": "processing time",
    "RealTimeTrigger": "real time",
    "ContinuousTrigger": "continuous",
    "AvailableNowTrigger": "available now",
    "OneTimeTrigger": "once",
}


def milliseconds(timestamp: str) -> int:
    """Milliseconds since the epoch of an event's timestamp, `2026-01-31T12:00:00.000Z`."""
    # Python 3.10, which Spark's own images have, does not know the Z.
    return round(datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() * 1000)


def watermark(progress: Mapping[str, Any]) -> float | None:
    """The event-time watermark that a progress tells, seconds since the epoch; None: the query has
    none, or no record has moved it yet (Spark then tells 1970)."""
    told: Any = (progress.get("eventTime") or {}).get("watermark")
    try:
        return milliseconds(told) / 1000 or None
    except (AttributeError, ValueError):
        return None


def trigger_interval(trigger: str) -> int | None:
    """Milliseconds between triggers, from `ProcessingTimeTrigger(2000)`; and how long a batch of
    `RealTimeTrigger(300000)` lasts.

    None where there is no interval: as fast as possible, once, continuous.
    """
    found = re.fullmatch(r"(?:ProcessingTime|RealTime)Trigger\((\d+)\)", trigger)
    return int(found[1]) or None if found else None


def trigger_kind(trigger: str) -> str | None:
    """What `Query.trigger` says of a trigger such as `ProcessingTimeTrigger(2000)`."""
    return _KINDS.get(trigger.partition("(")[0])


def planning(durations: Mapping[str, Any], took_ms: int) -> int | None:
    """Milliseconds of a trigger that took `took_ms` in which the driver was not waiting for the
    work on the batch, `addBatch`: latestOffset, getBatch, queryPlanning, walCommit, commitOffsets
    and what is between them. None if its `durationMs` does not tell."""
    work: Any = durations.get("addBatch")
    return max(0, took_ms - int(work)) if _is_count(work) else None


def backlog(progress: Mapping[str, Any]) -> int | None:
    """Records that the sources had and the query had not taken at a progress event.

    None if it cannot be told of every source: a missing metric is not a zero. It can where offsets
    have Kafka's shape. A plain number counts what only its source knows: the seconds of `rate`, the
    batches of `memory`.
    """
    sources = progress.get("sources") or ()
    try:
        return sum(sum(_lags(source).values()) for source in sources) if sources else None
    except NotKnown:
        return None


def reads_files(progress: Mapping[str, Any]) -> bool:
    """Whether one of its sources is for files: `FileStreamSource[file:/data/in]`."""
    sources = progress.get("sources") or ()
    return any(str(each.get("description")).startswith(_FILE_SOURCE) for each in sources)


def _lags(source: Mapping[str, Any]) -> dict[str, int]:
    return behind(offsets(source.get("endOffset")), offsets(source.get("latestOffset")))


def limit_by_options(most_rows: float | None, progress: Mapping[str, Any]) -> float | None:
    """Records that a batch might have by the options of its sources, as the batch counts records;
    None: as many as there were, or that is not known.

    `maxOffsetsPerTrigger` counts offsets. Of those some hold no record, as of transactions; and
    Spark counts a record each time that it is read, as by each action of a `foreachBatch`. So where
    offsets tell how far the batch has got, it stands at its limit by these. The share of each
    partition is rounded down (Spark's KafkaMicroBatchStream.rateLimit), so that many partitions
    with small shares come to less than the limit: 88 of 100.

    Args:
        most_rows: offsets, or records where a source counts those; infinity: no limit.
    """
    if most_rows is None or not most_rows < math.inf:
        return None
    taken = partitions = 0
    for source in progress.get("sources") or ():
        begin, end = offsets(source.get("startOffset")), offsets(source.get("endOffset"))
        if begin is None or end is None:
            return most_rows
        # Where a partition that is new begins is not told.
        taken += sum(max(0, at - begin[each]) for each, at in end.items() if each in begin)
        partitions += len(end)
    rows = progress.get("numInputRows")
    if not _is_count(rows) or not rows or not taken:
        return most_rows
    if most_rows - partitions < taken < most_rows and backlog(progress):
        return float(rows)  # it left some, for no other reason
    return float(most_rows * rows / taken)


def _is_count(offset: Any) -> bool:
    return isinstance(offset, (int, float)) and not isinstance(offset, bool)


def state_of(progress: Mapping[str, Any]) -> QueryState | None:
    """What a query keeps, from its progress; None: it has no stateful operator.

    Each is told only where every operator tells it.
    """
    operators = progress.get("stateOperators") or ()
    if not operators:
        return None
    partitions = {_whole(each.get("numShufflePartitions")) for each in operators}
    return QueryState(
        rows=whole_sum(_whole(each.get("numRowsTotal")) for each in operators),
        bytes=whole_sum(_whole(each.get("memoryUsedBytes")) for each in operators),
        partitions=partitions.pop() if len(partitions) == 1 else None,
        operators=tuple(str(each.get("operatorName")) for each in operators),
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def why_it_died(exception: str) -> str:
    """The gist of a terminated event's exception: one line, no stack frames, bounded.

    Of an error raised by Python code Spark gives the whole traceback: its end says what was raised.
    """
    message = exception.partition("\n\tat ")[0]
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "unknown error"
    return (error_of(lines) or lines[0].strip())[:ERROR_LENGTH]
