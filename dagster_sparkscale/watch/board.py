"""What the sensors of one cluster know of each other's streams.

One process evaluates all sensors of a code location. So what one has found is here for the others:
rows for the page of the fleet, which the first one tells of, and what each stream has of a budget.
Nothing here survives the process, and nothing here is needed for safety.
"""

import threading
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import dagster as dg

from dagster_sparkscale.autoscale.budget import Share
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.stream import LONGEST_REPORT, Stream
from dagster_sparkscale.durations import span
from dagster_sparkscale.operations import Streams, asset_key
from dagster_sparkscale.quantities import counted
from dagster_sparkscale.watch.fleet.news import Occurrence
from dagster_sparkscale.watch.fleet.problems import Problems
from dagster_sparkscale.watch.fleet.rows import UNJUDGED, Row
from dagster_sparkscale.watch.memory import StreamMemory
from dagster_sparkscale.watch.shards import spread

FRESH = 10.0
"""Seconds for which what one shard has got of the cluster manager is good for the others."""


@dataclass(frozen=True)
class Moved:
    """What the sensors of a cluster remembered of a stream when the process began."""

    stream: StreamMemory
    spills: Collection[int]
    """When the fleet was told of minutes of the stream, among others."""
    problems: Problems | None
    """None: of a release before, which had those of all streams in one place."""


@dataclass(frozen=True)
class Beside:
    """What the other shards of a cluster have found."""

    rows: Sequence[Row]
    unwatched: Sequence[Row]
    """Rows of the streams whose shards are silent; they say so."""
    problems: Mapping[str, Problems]
    """The problems of all these streams, as they were last told, by stream."""


SILENT = 180.0
"""Seconds after which a shard that has told nothing counts as not evaluated any more: three
ticks."""


class Board:
    """What the shards of a cluster have told each other.

    Args:
        shards: the streams of each, by the name of its sensor.
    """

    def __init__(self, shards: Mapping[str, Sequence[Stream]]) -> None:
        self._shards = shards
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._ticked_at: dict[str, float] = {}
        """When each shard last ticked, whether it told or not, by `time.monotonic()`."""
        self._at: dict[str, float] = {}
        """When each shard last told, by `time.monotonic()`."""
        self._rows: dict[str, Sequence[Row]] = {}
        self._problems: dict[str, Mapping[str, Problems]] = {}
        self._shares: dict[str, Share] = {}
        """What each stream has, by its name."""
        self._shares_at: dict[str, float] = {}
        """When each shard last said what its streams have, by `time.monotonic()`."""
        self._moved: dict[str, Moved] | None = None
        self._spilled_at = set[int]()
        self._taking = threading.Lock()
        self._taken: ClusterManager | Exception | None = None
        self._taken_at = 0.0
        self._taken_for: set[str] = set()
        """The sensors that have got it."""
        self.picture: dg.AssetObservation | None = None
        """What was last told of the fleet; None: nothing yet by this process."""

    @property
    def leader(self) -> str:
        """The sensor that tells of what all streams of the cluster have in common."""
        return next(iter(self._shards))

    def snapshot(self, sensor: str, cluster: ClusterManager) -> ClusterManager:
        """What the cluster manager knows of all streams; that which another shard has just got. No
        shard gets the same twice: its next tick may come soon, and must see what has changed.

        Raises:
            Exception: as the cluster manager's `snapshot`.
        """
        if len(self._shards) == 1:
            return cluster.snapshot()
        with self._taking:  # they tick together: the first gets it, the others wait for that
            old = time.monotonic() - self._taken_at > FRESH
            if self._taken is None or old or sensor in self._taken_for:
                self._taken_for.clear()
                try:
                    self._taken = cluster.snapshot()
                except Exception as error:
                    self._taken = error
                self._taken_at = time.monotonic()
            self._taken_for.add(sensor)
            if isinstance(self._taken, Exception):
                raise self._taken
            return self._taken

    def tell(self, sensor: str, rows: Iterable[Row], problems: Mapping[str, Problems]) -> None:
        """A shard has evaluated its streams, and these are their rows and their problems."""
        with self._lock:
            self._rows[sensor], self._at[sensor] = tuple(rows), time.monotonic()
            self._problems[sensor] = dict(problems)
            self._ticked_at[sensor] = self._at[sensor]

    def tells_later(self, sensor: str) -> None:
        """A shard has ticked, and can't tell of its streams yet: it is not silent."""
        with self._lock:
            self._ticked_at[sensor] = time.monotonic()

    def problems_of(self, sensor: str) -> Mapping[str, Problems]:
        """The problems of a shard's streams, as it last told them in this process."""
        with self._lock:
            return dict(self._problems.get(sensor, {}))

    def beside(self, sensor: str, now: float) -> Beside | None:
        """What all other shards have found. None: some have not evaluated their streams yet since
        the process began, and may any moment.

        Args:
            now: seconds since the epoch.
        """
        with self._lock:
            rows, unwatched = list[Row](), list[Row]()
            for other, streams in self._shards.items():
                if other == sensor:
                    continue
                silent_for = time.monotonic() - self._ticked_at.get(other, self._began)
                if silent_for > SILENT:
                    unwatched += [_unwatched(each, other, silent_for, now) for each in streams]
                elif other in self._at:
                    rows += self._rows[other]
                elif streams:
                    return None
            told = (dict(found) for other, found in self._problems.items() if other != sensor)
            # Of a shard that has not ticked since the process began, what it remembered then.
            moved = {name: known.problems or {} for name, known in (self._moved or {}).items()}
            return Beside(rows, unwatched, ChainMap(*told, moved))

    def unwatched(self, sensor: str, now: float) -> dict[str, Occurrence]:
        """The other shards that are silent, as problems of the fleet, by their sensor.

        Args:
            now: seconds since the epoch.
        """
        with self._lock:
            silent = {
                other: time.monotonic() - self._ticked_at.get(other, self._began)
                for other, streams in self._shards.items()
                if other != sensor and streams
            }
        return {
            other: Occurrence(
                *(other, "unwatched", round(now - seconds, 3)),
                f"this sensor evaluates {counted(len(self._shards[other]), 'stream')}, and has not "
                "ticked for long: see in Dagster whether it is on, and its last ticks",
                "",
            )
            for other, seconds in silent.items()
            if seconds > SILENT
        }

    @property
    def ticked(self) -> Collection[str]:
        """The sensors that have ticked since the process began."""
        return self._at.keys()

    @contextmanager
    def shares_beside(self, sensor: str) -> Iterator[list[Share]]:
        """What the streams of all other shards have of a budget, and want of it. While this is
        held, no other shard is granted anything."""
        with self._lock:
            yield [
                self._share(stream, other)
                for other, streams in self._shards.items()
                for stream in streams
                if other != sensor
            ]

    def _share(self, stream: Stream, sensor: str) -> Share:
        share = self._shares.get(stream.name) or Share(stream, _most(stream))
        silent = time.monotonic() - self._shares_at.get(sensor, self._began) > SILENT
        # What it has it may have still. What it wanted nobody will give it.
        return replace(share, target=None) if silent else share

    def keep_shares(self, sensor: str, shares: Iterable[Share]) -> None:
        """What a shard's streams have of a budget from now on, and what they want beside that."""
        with self._lock:
            self._shares |= {share.stream.name: share for share in shares}
            self._shares_at[sensor] = time.monotonic()

    def moved_to(self, sensor: str, read: Callable[[], dict[str, Moved]]) -> Mapping[str, Moved]:
        """What all sensors remembered of a shard's streams when the process began, by stream; until
        the shard has `settled`.

        Args:
            read: what all sensors of the cluster remember, by stream; called by the first tick of
                the process, before any other can have forgotten what is not its own any more.
        """
        # Others must not wait for what may hang. Until one is stored, nobody forgets anything.
        found = read() if self._moved is None else {}
        with self._lock:
            if self._moved is None:
                self._moved = found
            mine = {stream.name for stream in self._shards[sensor]}
            return {name: self._moved[name] for name in mine & self._moved.keys()}

    @property
    def has_moved(self) -> bool:
        """Whether it is known what each sensor remembered. Until then none may forget a stream that
        has gone to another."""
        return self._moved is not None

    @property
    def unsettled(self) -> Collection[str]:
        """The streams that have come to a shard which has not `settled` yet. The one that they were
        with keeps what it remembers: this process may end before."""
        with self._lock:
            declared = {stream.name for each in self._shards.values() for stream in each}
            return declared & (self._moved or {}).keys()

    def settled(self, sensor: str) -> None:
        """Dagster has stored what a shard remembers of its streams, those included that have come
        to it."""
        with self._lock:
            for stream in self._shards[sensor] if self._moved else ():
                assert self._moved is not None
                self._moved.pop(stream.name, None)

    def spill_at(self, now: float) -> int:
        """A moment, in seconds since the epoch, that no other spill of the cluster has."""
        with self._lock:
            at = int(now)
            while at in self._spilled_at:
                at += 1
            self._spilled_at = {each for each in self._spilled_at if each > at - LONGEST_REPORT} | {
                at
            }
            return at


@dataclass(frozen=True)
class Shard:
    """The streams that one sensor evaluates."""

    sensor: str
    """The name of the sensor."""
    streams: Mapping[str, Stream]
    """The streams by name."""
    board: Board
    """What it and the cluster's other sensors know of each other."""

    @property
    def leads(self) -> bool:
        """Whether its sensor tells of what all streams of the cluster have in common."""
        return self.sensor == self.board.leader


def shards_of(streams: Streams) -> list[Shard]:
    """The shards of the streams of a cluster."""
    parts = [
        {name: streams.by_name[name] for name in names}
        for names in spread(streams.by_name, streams.shards)
    ]
    by_sensor = dict(zip(streams.autoscalers, parts, strict=True))
    board = Board({sensor: [*part.values()] for sensor, part in by_sensor.items()})
    return [Shard(sensor, part, board) for sensor, part in by_sensor.items()]


def _most(stream: Stream) -> int:
    """Executors that a stream may have of which nothing is known yet."""
    return stream.bounds.maximum or stream.bounds.initial


def _unwatched(stream: Stream, sensor: str, seconds: float, now: float) -> Row:
    return Row(
        stream=stream.name,
        asset=tuple(asset_key(stream).path),
        state="unknown",
        seen_at=now,
        decision="hold",
        reason=f"the sensor {sensor}, which evaluates it, has not ticked for {span(seconds)}: see "
        "in Dagster whether it is on, and its last ticks",
        untold=UNJUDGED,
    )
