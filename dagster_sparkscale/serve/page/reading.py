"""Reads what is stored of a stream for its page: minutes and operations, the newest first, for as
long as it may; and reads on when it is asked again."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.names import CLUSTER_TAG, OPERATION_TAG, STORY, STREAM_TAG
from dagster_sparkscale.observe.history import minutes_of
from dagster_sparkscale.serve.page.operated import Operations, of_run, of_story
from dagster_sparkscale.serve.page.stream import Stored
from dagster_sparkscale.serve.page.thinned import Point, points, thinned, width
from dagster_sparkscale.watch.page.operated import reason_of

KEPT = 24
"""Pages whose past is remembered: each has some thousand points."""
_PAGE = 500
"""Events asked for at a time."""
_RUNS = 300
"""Runs asked for, the newest ones."""
_ONE_MORE = 5.0
"""Seconds before the newest event that was read, from which on it is read on: others may have been
stored behind it."""


@dataclass
class _Kind:
    """How far back the events of one kind have been read."""

    cursor: str | None = None
    reached: float = float("inf")
    """When the oldest of them was stored, seconds since the epoch."""
    whole: bool = False


@dataclass
class _Read:
    """What has been read of one stream, for one range."""

    found: list[Point] = field(default_factory=list)
    operations: Operations = field(default_factory=Operations)
    newest: float | None = None
    """When the newest event was stored that was read; one of a clock that is ahead counts as stored
    when it was read, or what comes behind it would be passed by."""
    kinds: Mapping[str, _Kind] = field(
        default_factory=lambda: {"observations": _Kind(), "materializations": _Kind()}
    )
    lock: threading.Lock = field(default_factory=threading.Lock)


class Reader:
    """What is stored of streams, as their pages need it."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str, str], _Read] = OrderedDict()
        self._lock = threading.Lock()

    def past(
        self,
        instance: DagsterInstance,
        cluster: str,
        stream: str,
        key: dg.AssetKey,
        *,
        cluster_key: str,
        shown: str,
        since: float,
        now: float,
        seconds: float,
    ) -> Stored:
        """What is stored of a stream since then.

        Args:
            cluster: whose stream it is: code location and cluster.
            shown: tells one range from another, each of which is remembered by itself.
            since, now: seconds since the epoch.
            seconds: for the event log; what there was no time for is read when this is asked again.
        """
        with self._lock:
            at = (cluster, stream, shown)
            read = self._read.setdefault(at, _Read())
            self._read.move_to_end(at)
            if len(self._read) > KEPT:
                self._read.popitem(last=False)
        # With the time that another page of this stream takes before: many would wait for long.
        until = time.monotonic() + seconds
        with read.lock:
            wide = width(now - since)
            _read_on(instance, key, read, wide, now)
            _read_back(instance, key, read, since, wide, now, until)
            _read_runs(instance, stream, cluster_key, read, since)
            read.found = [each for each in read.found if each.last >= since]
            read.operations.forget(since)
            # An event carries the minutes before it: those of both kinds are needed.
            reached = [each.reached for each in read.kinds.values() if not each.whole]
            kept = [each for each in read.found if each.first >= max([since, *reached])]
            operations = Operations(dict(read.operations.runs), dict(read.operations.events))
            return Stored(kept, operations, max([since, *reached]))


def _read_on(
    instance: DagsterInstance, key: dg.AssetKey, read: _Read, wide: int, now: float
) -> None:
    """Read what was stored since the last time; nothing where there was none."""
    if read.newest is None:
        return
    which = dg.AssetRecordsFilter(asset_key=key, after_timestamp=read.newest - _ONE_MORE)
    for fetch in (instance.fetch_observations, instance.fetch_materializations):
        cursor, more = None, True
        while more:
            page = fetch(which, _PAGE, cursor, ascending=True)
            _add(page.records, read, wide, now)
            cursor, more = page.cursor, page.has_more


def _read_back(
    instance: DagsterInstance,
    key: dg.AssetKey,
    read: _Read,
    since: float,
    wide: int,
    now: float,
    until: float,
) -> None:
    """Read further back, to `since`, for as long as there is time; at least a page of each kind."""
    which = dg.AssetRecordsFilter(asset_key=key, after_timestamp=since)
    fetches = {
        "observations": instance.fetch_observations,
        "materializations": instance.fetch_materializations,
    }
    begun = False
    while left := [name for name, each in read.kinds.items() if not each.whole]:
        if begun and time.monotonic() >= until:
            return
        begun = True
        # Both at the same pace: what counts is how far back both are read.
        for name in sorted(left, key=lambda each: -read.kinds[each].reached)[:1]:
            kind = read.kinds[name]
            page = fetches[name](which, _PAGE, kind.cursor)
            _add(page.records, read, wide, now)
            kind.cursor, kind.whole = page.cursor, not page.has_more
            kind.reached = min([kind.reached, *(each.timestamp for each in page.records)])
            if read.newest is None:
                # Of a stream of which nothing is stored yet: it is read on from here.
                read.newest = now


def _add(records: Sequence[dg.EventLogRecord], read: _Read, wide: int, now: float) -> None:
    minutes = []
    for record in records:
        minutes += minutes_of(record)
        read.newest = max(read.newest or 0.0, min(record.timestamp, now))
        event = record.asset_observation
        if event is None:
            continue
        operation, story = event.metadata.get(OPERATION_TAG), event.metadata.get(STORY)
        if operation is not None and story is not None and isinstance(story.value, dict):
            told = of_story(record.run_id, str(operation.value), record.timestamp, story.value)
            read.operations.events[record.run_id] = told
    read.found = thinned([*read.found, *points(minutes)], wide)


def _read_runs(
    instance: DagsterInstance, stream: str, cluster_key: str, read: _Read, since: float
) -> None:
    which = dg.RunsFilter(
        tags={STREAM_TAG: stream, CLUSTER_TAG: cluster_key},
        created_after=datetime.fromtimestamp(since, UTC),
    )
    for record in instance.get_run_records(which, limit=_RUNS):
        run = record.dagster_run
        operation = run.tags.get(OPERATION_TAG)
        if operation is not None:
            read.operations.runs[run.run_id] = of_run(
                *(run.run_id, run.tags, run.status.value, operation),
                *(record.create_timestamp.timestamp(), record.start_time, record.end_time),
                reason_of(run.run_config),
            )
