"""A Kinesis stream in memory: what `Service` offers, on a clock that the test moves.

What matters of the real service is here: shards that split and merge, arrival stamps that are not
quite in order, empty pages on the way over a silent stretch, iterators that expire, iterators that
are null at the end of a closed shard, records and shards that go when they are too old.
"""

import base64
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dagster_sparkscale.sources.kinesis.client import KinesisError, UnknownSequence
from dagster_sparkscale.sources.kinesis.options import Connection
from dagster_sparkscale.sources.kinesis.positions import Kind, Position
from dagster_sparkscale.sources.kinesis.service import (
    ExpiredIterator,
    Page,
    Record,
    arrived_ms,
)
from dagster_sparkscale.sources.kinesis.shards import Shard

BEGAN_MS = 1_700_000_000_000
FIRST_SEQUENCE = 49590338271490256608559692538361571095921575989136588898
ITERATOR_LIVES_MS = 300_000
MOST_BYTES = 10 * 1024 * 1024


@dataclass
class Stored:
    """A shard with all it ever took in; the first `trimmed` of it are gone."""

    id: str
    parents: tuple[str, ...]
    opened_ms: int
    closed_ms: int | None = None
    records: list[Record] = field(default_factory=list)
    latest_ms: list[int] = field(default_factory=list)
    """The highest stamp up to each record: stamps may be out of order."""
    places: dict[str, int] = field(default_factory=dict)
    trimmed: int = 0


class MemoryService:
    """Stands in for `Service`.

    Args:
        gap_ms: so much of a silent stretch a page gets past at most.
        expire_every: refuse every so many-th read with an iterator that was kept; 0 for none.
        null_with_last: whether the last records of a closed shard come with a null iterator, or
            an empty page follows them.
        always_at_tip: tell of a lag of 0 whatever it is, as an emulator does.
        hangs_on_times: give no iterator for a moment with no later record, as the same one.
    """

    def __init__(
        self,
        shards: int = 1,
        retention_ms: int = 24 * 3_600_000,
        gap_ms: int = 10**12,
        expire_every: int = 0,
        null_with_last: bool = True,
        always_at_tip: bool = False,
        hangs_on_times: bool = False,
    ) -> None:
        self.connection = Connection(stream="memory", region="eu-central-1")
        self.ms = BEGAN_MS
        self.ahead_ms = 0
        """How far this side takes the service's clock to be ahead of what it is."""
        self.kept_ms = retention_ms
        self.gap_ms = gap_ms
        self.expire_every = expire_every
        self.null_with_last = null_with_last
        self.always_at_tip = always_at_tip
        self.hangs_on_times = hangs_on_times
        self.stored: dict[str, Stored] = {}
        self.calls: Counter[str] = Counter()
        self.iterators: Counter[str] = Counter()
        self.returned: Counter[str] = Counter()
        self.asked_retention = 0
        self._kept_ones: Counter[str] = Counter()
        self._put = 0
        self._lock = threading.Lock()
        for _ in range(shards):
            self._add(())

    # What `Service` has

    def shards(self) -> list[Shard]:
        self._trim()
        return [
            Shard(
                each.id,
                # The real service goes on to name parents that have gone.
                each.parents,
                each.closed_ms is not None,
                str(FIRST_SEQUENCE),
            )
            for each in self.stored.values()
            if not self.is_gone(each)
        ]

    def retention_ms(self) -> int:
        self.asked_retention += 1
        return self.kept_ms

    def now_ms(self) -> int:
        return self.ms + self.ahead_ms

    def iterator(self, shard: str, position: Position, hasty: bool = False) -> str:
        self._trim()
        stored = self._find(shard)
        with self._lock:
            self.iterators[shard] += 1
        oldest = max(stored.opened_ms, self.ms - self.kept_ms)
        match position.kind:
            case Kind.TRIM:
                place, at_ms = stored.trimmed, oldest
            case Kind.TIME:
                moment = min(position.time_ms or 0, self.now_ms())
                if moment > self.ms:
                    raise KinesisError("InvalidArgumentException: the timestamp is in the future")
                place, at_ms = self._at(stored, moment), max(moment, oldest)
                if self.hangs_on_times and place == len(stored.records):
                    raise KinesisError("the answer did not come in time")
            case Kind.AT | Kind.AFTER:
                assert position.sequence is not None
                if position.sequence == str(FIRST_SEQUENCE):
                    return f"{shard} {stored.trimmed} {oldest} {self.ms}"
                if position.sequence not in stored.places:
                    raise UnknownSequence(f"InvalidArgumentException: no {position.sequence}")
                found = stored.places[position.sequence]
                at_ms = max(oldest, arrived_ms(stored.records[found]))
                place = max(stored.trimmed, found + (position.kind is Kind.AFTER))
            case Kind.END:
                raise ValueError(f"{shard} has been read to its end")
        return f"{shard} {place} {at_ms} {self.ms}"

    def records(self, shard: str, iterator: str, limit: int) -> Page:
        assert 1 <= limit <= 10_000, f"a page of {limit} is refused"
        self._trim()
        of, place_text, at_text, got_text = iterator.split()
        assert of == shard
        stored = self._find(shard)
        with self._lock:
            self.calls[shard] += 1
            if self.ms > int(got_text):
                self._kept_ones[shard] += 1
                if self.expire_every and self._kept_ones[shard] % self.expire_every == 0:
                    raise ExpiredIterator
        if self.ms - int(got_text) > ITERATOR_LIVES_MS:
            raise ExpiredIterator
        place, at_ms = max(int(place_text), stored.trimmed), int(at_text)
        page = self._page(stored, place, at_ms, limit)
        with self._lock:
            self.returned[shard] += len(page.records)
        return page

    # What the test does

    def advance(self, ms: float) -> None:
        self.ms += round(ms)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds * 1000)

    def seconds(self) -> float:
        """A clock for what wants one."""
        return self.ms / 1000

    def put(self, shard: str, stamps: Sequence[int], size: int = 12) -> list[Record]:
        """Records that arrive at these moments, in this order."""
        stored = self.stored[shard]
        assert stored.closed_ms is None, f"{shard} is closed"
        data = base64.b64encode(b"x" * size).decode()
        records = []
        for stamp in stamps:
            self._put += 1
            sequence = str(FIRST_SEQUENCE + self._put)
            record: Record = {
                "SequenceNumber": sequence,
                "ApproximateArrivalTimestamp": stamp / 1000,
                "PartitionKey": str(self._put),
                "Data": data,
            }
            records.append(record)
            stored.places[sequence] = len(stored.records)
            stored.records.append(record)
            highest = stored.latest_ms[-1] if stored.latest_ms else stamp
            stored.latest_ms.append(max(stamp, highest))
        return records

    def open(self) -> list[str]:
        return [each.id for each in self.stored.values() if each.closed_ms is None]

    def split(self, shard: str) -> list[str]:
        self.stored[shard].closed_ms = self.ms
        return [self._add((shard,)), self._add((shard,))]

    def merge(self, one: str, other: str) -> str:
        self.stored[one].closed_ms = self.stored[other].closed_ms = self.ms
        return self._add((one, other))

    # How it works

    def _add(self, parents: tuple[str, ...]) -> str:
        shard = f"shardId-{len(self.stored):012d}"
        self.stored[shard] = Stored(shard, parents, self.ms)
        return shard

    def is_gone(self, stored: Stored) -> bool:
        return stored.closed_ms is not None and stored.closed_ms <= self.ms - self.kept_ms

    def _find(self, shard: str) -> Stored:
        stored = self.stored.get(shard)
        if stored is None or self.is_gone(stored):
            raise KinesisError(f"ResourceNotFoundException: no shard {shard}")
        return stored

    def _trim(self) -> None:
        horizon = self.ms - self.kept_ms
        with self._lock:
            for each in self.stored.values():
                while (
                    each.trimmed < len(each.records)
                    and arrived_ms(each.records[each.trimmed]) <= horizon
                ):
                    each.trimmed += 1

    def _at(self, stored: Stored, moment: int) -> int:
        """The first record in the shard that arrived at `moment` or later; its tip, if none."""
        place = max(bisect_left(stored.latest_ms, moment), stored.trimmed)
        while place < len(stored.records) and arrived_ms(stored.records[place]) < moment:
            place += 1
        return place

    def _page(self, stored: Stored, place: int, at_ms: int, limit: int) -> Page:
        taken: list[Record] = []
        size = 0
        while len(taken) < limit and place < len(stored.records):
            record = stored.records[place]
            arrived = arrived_ms(record)
            size += len(record["Data"])
            if arrived - at_ms > self.gap_ms or (taken and size > MOST_BYTES):
                break
            taken.append(record)
            at_ms, place = max(at_ms, arrived), place + 1
        if place == len(stored.records):
            last_ms = self.ms if stored.closed_ms is None else stored.closed_ms
            if last_ms - at_ms <= self.gap_ms:
                if stored.closed_ms is None:
                    return self._answer(stored, taken, place, last_ms, 0)
                if not taken or (self.null_with_last and len(taken) < limit):
                    return Page(taken, None, 0)
                return self._answer(stored, taken, place, last_ms, 0)
        if not taken:
            at_ms += self.gap_ms
        return self._answer(stored, taken, place, at_ms, max(1, self.ms - at_ms))

    def _answer(
        self, stored: Stored, taken: list[Record], place: int, at_ms: int, behind_ms: int
    ) -> Page:
        behind = 0 if self.always_at_tip else behind_ms
        return Page(taken, f"{stored.id} {place} {at_ms} {self.ms}", behind)
