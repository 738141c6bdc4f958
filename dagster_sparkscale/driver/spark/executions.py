"""What the execution of a Structured Streaming query tells by private parts of Spark.

Each is read by way of its `Feature` in `features.py`.
"""

import math
from typing import Any

from .private import is_absent

_FILE_SOURCE = "FileStreamSource"
"""The class of each of Spark's sources for files."""
_PROGRESS_OF_3_5 = "org$apache$spark$sql$execution$streaming$ProgressReporter"


def trigger_began(query: Any) -> int | None:
    """When the trigger of a query that is in progress began, in milliseconds since the epoch; None
    if not told.

    Args:
        query: its `StreamingQueryWrapper`.
    """
    execution = query.streamingQuery()
    try:
        began = int(execution.getLatestExecutionContext().currentTriggerStartTimestamp())
    except Exception as error:
        if not is_absent(error):
            raise
        # 3.5 keeps it in the query itself, in a field of a trait.
        began = int(getattr(execution, _PROGRESS_OF_3_5 + "$$currentTriggerStartTimestamp")())
    return began if began > 0 else None


def most_rows(query: Any) -> float | None:
    """How many records the options of its sources let a batch of a query have, all sources
    together; infinity: as many as there are, or a limit that counts something else, as files. None:
    not known yet.

    Args:
        query: its `StreamingQueryWrapper`.
    """
    limits = query.streamingQuery().uniqueSources().valuesIterator()
    total: float | None = None
    while limits.hasNext():
        total = _rows(limits.next()) + (total or 0)
    return total


def files_waiting(query: Any) -> int | None:
    """The files that the file sources of a query have found and no batch has taken yet, at least;
    None: not known.

    `FileStreamSource` keeps those that it found beyond `maxFilesPerTrigger` for the next batches:
    up to `maxCachedFiles` (10000), and none where they are few, less than `maxFilesPerTrigger` *
    `discardCachedInputRatio` (0.2), or where `latestFirst` is set. Files that came since are found
    when these are taken.

    Args:
        query: its `StreamingQueryWrapper`.
    """
    sources = query.streamingQuery().uniqueSources().keysIterator()
    total: int | None = None
    while sources.hasNext():
        source = sources.next()
        kind = source.getClass()
        if kind.getSimpleName() != _FILE_SOURCE:
            continue
        kept = kind.getDeclaredField("unreadFiles")
        kept.setAccessible(True)
        if (unread := kept.get(source)) is not None:
            total = int(unread.size()) + (total or 0)
    return total


def _rows(limit: Any) -> float:
    """The rows of an `org.apache.spark.sql.connector.read.streaming.ReadLimit`."""
    kind = limit.getClass().getSimpleName()
    if kind == "ReadMaxRows":
        return float(limit.maxRows())
    if kind == "CompositeReadLimit":
        return min((_rows(each) for each in limit.getReadLimits()), default=math.inf)
    return math.inf
