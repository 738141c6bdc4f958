"""How fast Dagster stores the events of a tick, as the event log itself says.

Dagster stores them once the tick is over, in a process of its own; each has the time at which it
was stored. So the next tick reads two of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster import DagsterInstance

STORING = 0.015
"""Seconds that an event takes where nothing is known yet: on SQLite and a free core 8 ms, and a
check three times that."""
LEAST, MOST = 0.005, 1.0
"""Seconds that an event is taken to need at least, and at most: a clock may have been set ahead
between two of them."""
ENOUGH = 20
"""Events between two, for them to say how fast it goes."""

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


@dataclass
class Pace:
    """What the process of a sensor knows of it."""

    sensors: int = 1
    """How many sensors' events are stored at the same time: they share the database."""
    seconds: float = field(init=False)
    """Seconds that an event takes."""
    _between: tuple[Event, Event, int] | None = None
    """Two events of the last tick, and how many were stored from the one to the other."""

    def __post_init__(self) -> None:
        self.seconds = self._usual

    @property
    def _usual(self) -> float:
        return STORING * self.sensors

    def told(self, events: Sequence[Event]) -> None:
        """Remember what Dagster is to store."""
        places = [n for n, event in enumerate(events) if not _is_check(event)]
        self._between = None
        if places and places[-1] - places[0] >= ENOUGH:
            self._between = events[places[0]], events[places[-1]], places[-1] - places[0]

    def measure(self, instance: DagsterInstance) -> None:
        """See how long the last tick's have taken."""
        between, self._between = self._between, None
        if between is None:
            # What was slow once, is not so for ever.
            self.seconds = (self.seconds + self._usual) / 2
            return
        first, last, events = between
        begun, ended = _stored_at(instance, first), _stored_at(instance, last)
        if begun is not None and ended is not None and ended >= begun:
            # What is fast for a moment need not stay so.
            took = max(self.seconds / 2, (ended - begun) / events)
            self.seconds = min(max(LEAST, took), MOST)


def _is_check(event: Event) -> bool:
    return isinstance(event, dg.AssetCheckEvaluation)


def _stored_at(instance: DagsterInstance, event: Event) -> float | None:
    """When the newest event of an asset was stored that is of this kind, seconds since the epoch;
    None: there is none, or it is not this one."""
    observes = isinstance(event, dg.AssetObservation)
    fetch = instance.fetch_observations if observes else instance.fetch_materializations
    for record in fetch(event.asset_key, limit=1).records:
        stored = record.asset_observation if observes else record.asset_materialization
        if stored is not None and stored.metadata == event.metadata:
            return record.timestamp
    return None
