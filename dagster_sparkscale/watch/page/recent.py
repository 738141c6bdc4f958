"""The last hours of each stream, as the process of the sensor remembers them.

Kept in the process: a cursor would store them with each tick. After a restart of the code location
they are read back from the event log, a few streams a tick.
"""

import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dagster import AssetKey, DagsterInstance

from dagster_sparkscale.observe.history import newest
from dagster_sparkscale.observe.minutes import Minute, merged
from dagster_sparkscale.operations import run_key
from dagster_sparkscale.watch.memory import StreamMemory
from dagster_sparkscale.watch.page.overview import DECISIONS, Decided, Operated
from dagster_sparkscale.watch.page.picture import Buckets

EVENTS = 60
"""Events of a stream that are read back, of each kind."""
READING = 2.0
"""Seconds of a tick for reading back."""


@dataclass
class Recent:
    """The last hours of one stream."""

    stream: str
    buckets: Buckets = field(default_factory=Buckets)
    seen_at: int = 0
    """When its last minute was, seconds since the epoch."""
    decided: deque[Decided] = field(default_factory=lambda: deque(maxlen=DECISIONS))
    operated: Sequence[Operated] = ()
    """The last operations on it that are over, in order."""

    def add(self, minute: Minute) -> None:
        """Remember what was seen in a minute, later than those before."""
        self.buckets.add(minute)
        self.seen_at = minute.at
        if minute.decision is not None:
            key = run_key(self.stream, minute.epoch, minute.at)
            self.decided.append(Decided(minute.at, minute.decision, minute.reason or "", key))


class Recents:
    """The last hours of all streams of a sensor."""

    def __init__(self) -> None:
        self._by_stream: dict[str, Recent] = {}
        self._until = 0.0

    def tick(self, declared: Collection[str]) -> None:
        """A tick begins: forget what is not declared any more."""
        self._by_stream = {name: one for name, one in self._by_stream.items() if name in declared}
        self._until = time.monotonic() + READING

    def of(
        self, instance: DagsterInstance, stream: str, key: AssetKey, memory: StreamMemory
    ) -> Recent:
        """The last hours of a stream, with the minutes in `memory`, which are no event yet."""
        known = self._by_stream.get(stream)
        # A tick that was tried out, or that Dagster has dropped, was none.
        if known is not None and known.seen_at == memory.last_at:
            return known
        recent, stored = Recent(stream), list[Minute]()
        in_time = time.monotonic() < self._until
        if in_time:
            stored = newest(instance, key, EVENTS)
        # After a crash, minutes that have been stored are pending still.
        for minute in merged((stored, memory.minutes)):
            recent.add(minute)
        if in_time:
            # Else it is asked for again at a later tick, and the picture is empty so long.
            self._by_stream[stream] = recent
        return recent
