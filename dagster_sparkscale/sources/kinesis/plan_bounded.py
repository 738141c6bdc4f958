"""Plans a batch read: everything between two points of the stream, all shards at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .client import KinesisError, UnknownSequence
from .options import Options, Start
from .planner import Planner, wait_until_past
from .positions import END, Kind, Offset, Position, before
from .ranges import Range
from .retention import Retention, found
from .service import THREADS, Service
from .shards import Shard, ancestors


def plan_bounded(
    service: Service, options: Options, sleep: Callable[[float], None] = time.sleep
) -> list[Range]:
    """What a batch read reads: from startingPosition (or the oldest record) to endingPosition (or
    what is the tip now). If startingPosition is a moment ago, it waits until that is certain.

    Raises:
        DataLost: startingPosition or endingPosition is older than what the stream retains, and
            failOnDataLoss.
        KinesisError: a position names what the stream has not.
    """
    planner = Planner(service, options.fail_on_data_loss)
    start = options.start or Start(everywhere=Position(Kind.TRIM))
    if start.latest:
        return []
    if start.everywhere is not None and start.everywhere.time_ms is not None:
        wait_until_past(service, start.everywhere.time_ms, sleep)
    listed = service.shards()
    begun = planner.begin(start)
    positions = dict(begun.shards)
    skipped = ancestors(positions, listed)
    for shard in listed:
        if shard.id not in skipped:
            positions.setdefault(shard.id, begun.first())
    if options.end and options.end.shards:
        ends = _found(service, options.end.shards, listed, options.fail_on_data_loss)
        return _up_to(ends, positions, listed)
    end = options.end.everywhere if options.end else None
    planner.stop_at(end.time_ms if end else None)
    plan = planner.everything(Offset(begun.stream, positions, begun.from_ms))
    # Parents are listed before their children, and those that came meanwhile are the last.
    order = {shard.id: number for number, shard in enumerate(listed)}
    return sorted(plan.ranges, key=lambda each: order.get(each.shard, len(order)))


def _found(
    service: Service, ends: Mapping[str, Position], listed: Sequence[Shard], fail: bool
) -> dict[str, Position]:
    """The ends whose records still exist; a trimmed end has nothing before it.

    Raises:
        DataLost: the record of an end is gone, and `fail`.
        KinesisError: the stream has no such shard, or the shard never had such a record.
    """
    if unknown := sorted(set(ends) - {shard.id for shard in listed}):
        raise KinesisError(f"endingPosition names {', '.join(unknown)}, which the stream has not")
    retention = Retention(service, fail)

    def is_there(shard: str) -> bool:
        sequence = ends[shard].sequence or ""
        missing = (
            f"endingPosition: {shard} has no record {sequence}: give the sequence number of a "
            "record that the stream still has in this very shard"
        )
        try:
            if found(service, shard, sequence) is not None:
                return True
        except UnknownSequence:
            raise KinesisError(missing) from None
        oldest = service.records(shard, service.iterator(shard, Position(Kind.TRIM)), 1).records
        if not oldest or not before(sequence, oldest[0]["SequenceNumber"]):
            raise KinesisError(missing)
        retention.report(f"{missing}; it may have had that one, and others before it")
        return False

    with ThreadPoolExecutor(min(THREADS, len(ends))) as threads:
        there = dict(zip(ends, threads.map(is_there, ends), strict=True))
    return {shard: end for shard, end in ends.items() if there[shard]}


def _up_to(
    ends: Mapping[str, Position], positions: Mapping[str, Position], listed: Sequence[Shard]
) -> list[Range]:
    wanted = {shard: END for shard in ancestors(ends, listed)} | dict(ends)
    return [
        Range(shard, positions[shard], end)
        for shard, end in wanted.items()
        if shard in positions and not _ends_first(positions[shard], end)
    ]


def _ends_first(start: Position, end: Position) -> bool:
    """Whether nothing lies between two positions, as the end comes first."""
    if start.sequence is None or end.sequence is None:
        return False
    if start.sequence == end.sequence:
        return (start.kind, end.kind) != (Kind.AT, Kind.AFTER)
    return before(end.sequence, start.sequence)
