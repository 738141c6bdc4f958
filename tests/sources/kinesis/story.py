"""What may happen to a stream in memory and to a query on it, drawn by hypothesis."""

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.options import Limits

from .memory import BEGAN_MS, MemoryService
from .query import Query


@dataclass(frozen=True)
class Put:
    shard: int
    records: int
    over_ms: int
    jitter_ms: int
    seed: int


@dataclass(frozen=True)
class Silence:
    ms: int


@dataclass(frozen=True)
class Split:
    shard: int


@dataclass(frozen=True)
class Merge:
    shard: int


@dataclass(frozen=True)
class Batch:
    again: bool
    thrown_away: bool
    restart: bool
    slow_ms: int
    """Between planning and reading."""
    put: Put | None


puts = st.builds(
    Put,
    st.integers(0, 7),
    st.sampled_from([1, 2, 7, 60, 150, 400]),
    st.sampled_from([0, 0, 5, 200, 1000, 5000]),
    st.sampled_from([0, 0, 3, 50]),
    st.integers(0, 99),
)
LIMITED = 10
"""Batches of a backlog that are planned under the limits of a story; then they are lifted. A
limit of one record would else take as many batches as there are records."""
batches = st.builds(
    Batch,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 200, 3000, 400_000]),
    st.none() | puts,
)
steps = (
    puts
    | puts
    | batches
    | batches
    | st.builds(Silence, st.sampled_from([10, 500, 3000, 20_000, 100_000, 400_000]))
    | st.builds(Split, st.integers(0, 7))
    | st.builds(Merge, st.integers(0, 7))
)
limits = st.none() | st.builds(
    Limits,
    records=st.none() | st.sampled_from([1, 10, 100, 1000]),
    bytes=st.none() | st.sampled_from([1, 1000, 50_000]),
    span_ms=st.none() | st.sampled_from([1, 100, 2000, 60_000]),
    duration_ms=st.none() | st.sampled_from([100, 2000, 10_000]),
)
services = st.builds(
    MemoryService,
    shards=st.integers(1, 3),
    gap_ms=st.sampled_from([3000, 60_000, 600_000]),
    expire_every=st.sampled_from([0, 0, 1, 2, 3]),
    null_with_last=st.booleans(),
)
emulators = st.builds(
    MemoryService,
    shards=st.integers(1, 3),
    always_at_tip=st.booleans(),
    hangs_on_times=st.booleans(),
)


def put(service: MemoryService, what: Put) -> None:
    shards = service.open()
    stamps = [service.ms + what.over_ms * n // what.records for n in range(what.records)]
    service.advance(what.over_ms)
    chance = random.Random(what.seed)
    late = [max(BEGAN_MS, each - chance.randint(0, what.jitter_ms)) for each in stamps]
    service.put(shards[what.shard % len(shards)], late)


def change(service: MemoryService, what: object) -> None:
    shards = service.open()
    match what:
        case Put():
            put(service, what)
        case Silence(ms):
            service.advance(ms)
        case Split(at) if len(shards) < 6:
            service.split(shards[at % len(shards)])
        case Merge(at) if len(shards) > 1:
            service.merge(shards[at % len(shards)], shards[(at + 1) % len(shards)])


def run(query: Query, what: object) -> None:
    if not isinstance(what, Batch):
        change(query.service, what)
        return

    def meanwhile() -> None:
        query.service.advance(what.slow_ms)
        if what.put:
            put(query.service, what.put)

    if what.restart:
        query.restart()
    query.batch(what.again, what.thrown_away, meanwhile)


def arrived(records):
    return [record["ApproximateArrivalTimestamp"] * 1000 for record in records]
