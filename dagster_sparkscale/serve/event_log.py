"""Reads Dagster's event log on, stream by stream: at each turn what is new since the last one.

The sums begin with this process and only grow: Prometheus takes a counter that is lower than before
for one that began at 0, and would count again whatever an earlier process had told.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.names import OPERATION_TAG, STORY
from dagster_sparkscale.observe.history import minutes_of
from dagster_sparkscale.observe.minutes import merged
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.private_dagster import newest_event
from dagster_sparkscale.serve.tally import Tally

EVERY = 30.0
"""Seconds between two turns of a stream at least: its events come every few minutes."""
_PAGE = 500
"""Events asked for at a time."""
_SETTLED = 2.0
"""Seconds after which an event is read: by then those that were stored before it can be, too."""


@dataclass
class _Read:
    """How far the events of one stream have been read."""

    tally: Tally = field(default_factory=Tally)
    observations: str | None = None
    materializations: str | None = None
    """The cursors behind the last event of each kind; None: before the first."""
    held: list[dg.EventLogRecord] = field(default_factory=list)
    """Events that were found before their time, and are counted when it has come."""
    at: float = float("-inf")
    """When that was, by `time.monotonic()`."""


class EventLog:
    """The sums of all streams of one cluster.

    Args:
        began: when the process began, seconds since the epoch.
    """

    def __init__(self, began: float) -> None:
        self.since = began
        self._read: dict[str, _Read] = {}
        self._newest = 0
        """The number of the event log's newest event when it was last read."""
        self._read_at = began

    def read_on(
        self, instance: DagsterInstance, streams: Collection[Stream], now: float, seconds: float
    ) -> Mapping[str, Tally]:
        """The sums by stream, of those that were read at least once: what is new is added for as
        many streams as `seconds` are enough for, those first that have waited longest.

        Args:
            now: seconds since the epoch.
        """
        self._begin_anew(instance, now)
        until = time.monotonic() + seconds
        known = {stream.name: self._read.get(stream.name) or _Read() for stream in streams}
        for stream in sorted(streams, key=lambda each: known[each.name].at):
            read, at = known[stream.name], time.monotonic()
            if at >= until:
                break
            if at - read.at >= EVERY:
                self._read_stream(instance, asset_key(stream), read, now - _SETTLED)
                read.at = at
                self._read[stream.name] = read
        return {name: read.tally for name, read in known.items() if name in self._read}

    def _begin_anew(self, instance: DagsterInstance, now: float) -> None:
        """Read on by time where the cursors lead nowhere: the database was put back to what it was
        before, or the clock was ahead when this process began."""
        newest = newest_event(instance)
        if newest < self._newest or now < self.since:
            self.since = min(now, self._read_at)
            for read in self._read.values():
                read.observations = read.materializations = None
                read.held = []
        self._newest, self._read_at = newest, now

    def _read_stream(
        self, instance: DagsterInstance, key: dg.AssetKey, read: _Read, until: float
    ) -> None:
        # All that there is, for a cursor passes by an event of a clock that is ahead of another's;
        # such a one is held.
        which = dg.AssetRecordsFilter(asset_key=key, after_timestamp=self.since)
        found = [*read.held]
        cursors = []
        for fetch, cursor in (
            (instance.fetch_observations, read.observations),
            (instance.fetch_materializations, read.materializations),
        ):
            more = True
            while more:
                page = fetch(which, _PAGE, cursor, ascending=True)
                found += page.records
                cursor, more = page.cursor, page.has_more
            cursors.append(cursor)
        read.observations, read.materializations = cursors
        # Both kinds up to the same moment: a minute before one that was added would be lost.
        read.held = [each for each in found if each.timestamp >= until]
        found = [each for each in found if each.timestamp < until]
        minutes = merged(map(minutes_of, found))
        read.tally.add_minutes(each for each in minutes if each.at >= self.since)
        for record in found:
            _add_operation(read.tally, record)


def _add_operation(tally: Tally, record: dg.EventLogRecord) -> None:
    event = record.asset_observation
    if event is None:
        return
    operation, story = event.metadata.get(OPERATION_TAG), event.metadata.get(STORY)
    if operation is not None and operation.value == "rescale" and story is not None:
        told = story.value
        tally.add_rescale(told if isinstance(told, dict) else {})
