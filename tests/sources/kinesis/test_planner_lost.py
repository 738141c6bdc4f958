"""Data that is gone before it was read, and what only looks so; on a stream in memory."""

import pytest

from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.positions import Kind, Position
from dagster_sparkscale.sources.kinesis.retention import DataLost

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query, numbers, planner_of

HOUR_MS = 3_600_000
SHARD = "shardId-000000000000"


def with_some_read(fail, retention_ms=24 * HOUR_MS, shards=1):
    """A query that has read one record of each shard and knows so from its offset."""
    service = MemoryService(shards, retention_ms)
    for shard in service.open():
        service.put(shard, [service.ms])
    service.advance(1000)
    query = Query(service, OLDEST, fail=fail)
    assert query.batch() == shards
    return service, query


def test_data_that_is_trimmed_before_it_was_read_is_an_error():
    service, query = with_some_read(fail=True)
    service.put(SHARD, [service.ms])
    service.advance(25 * HOUR_MS)
    service.put(SHARD, [service.ms])
    for _ in range(2):
        query.restart()
        with pytest.raises(DataLost, match=r"data of shardId-000000000000 of memory .*failOnDataL"):
            query.plan()
    with pytest.raises(DataLost):
        query.planner.check(query.offset)


def test_lost_data_is_counted_where_it_is_no_error_and_reading_goes_on():
    service, query = with_some_read(fail=False)
    gone = numbers(service.put(SHARD, [service.ms]))
    service.advance(25 * HOUR_MS)
    # A batch that has found nothing but the loss, and one with what is left.
    assert query.batch(again=True) == 0
    assert query.offset.lost == 1
    left = numbers(service.put(SHARD, [service.ms] * 150))
    service.advance(1000)
    assert query.batch(again=True) == 150
    assert query.delivered[SHARD][1:] == left
    assert gone[0] not in query.delivered[SHARD]
    assert query.offset.lost == 1, "a loss is counted once"


def test_lost_data_in_front_of_a_batch_that_is_repeated():
    service, query = with_some_read(fail=False)
    service.put(SHARD, [service.ms])
    service.advance(25 * HOUR_MS)
    service.put(SHARD, [service.ms] * 150)
    service.advance(1000)
    assert query.batch(again=True) == 150


def test_a_loss_that_shows_as_a_batch_is_repeated_is_counted_once_and_with_what_follows():
    service, query = with_some_read(fail=False)
    service.advance(HOUR_MS)
    service.put(SHARD, [service.ms])
    begin, until = query.offset, query.plan().end
    service.advance(23 * HOUR_MS)
    query.restart()
    query.planner.check(begin)
    query.offset = until
    for _ in range(3):
        service.put(SHARD, [service.ms])
        service.advance(1000)
        assert query.batch() == 1
        assert query.offset.lost == 1


def test_what_goes_while_a_planned_batch_waits_to_be_read_is_noticed():
    service, query = with_some_read(fail=True)
    # More than goes with a plan: the rest is left to who reads.
    service.put(SHARD, range(service.ms, service.ms + 2 * HOUR_MS, 2000), size=300)
    query.limits = None
    service.advance(23 * HOUR_MS)
    with pytest.raises(DataLost, match="no longer has all that follows what was read of it"):
        query.batch(meanwhile=lambda: service.advance(2 * HOUR_MS), again=False)


def test_a_shard_that_goes_before_it_was_read_is_lost_and_its_children_are_read():
    service, query = with_some_read(fail=False)
    service.put(SHARD, [service.ms])
    left, _ = service.split(SHARD)
    service.advance(25 * HOUR_MS)
    service.put(left, [service.ms])
    strict = planner_of(service, True)
    with pytest.raises(DataLost, match="shardId-000000000000 of memory is gone"):
        strict.plan(query.offset, Limits())
    assert query.batch(again=True) == 1
    assert query.offset.lost == 1
    assert set(query.offset.shards) == {left, "shardId-000000000002"}


@pytest.mark.parametrize("kind", ["read", "never read", "latest"])
@pytest.mark.parametrize("every_ms", [200_000, 1_200_000])
@pytest.mark.parametrize("restart", [False, True])
def test_a_shard_that_is_silent_for_longer_than_data_is_kept_is_no_loss(kind, every_ms, restart):
    if kind == "read":
        service, query = with_some_read(fail=True)
    else:
        service = MemoryService()
        query = Query(service, Start(latest=True) if kind == "latest" else OLDEST)
    service.gap_ms = 600_000
    for batch in range(30 * HOUR_MS // every_ms):
        service.advance(every_ms)
        if restart and batch % 30 == 0:
            query.restart()
        assert query.batch(again=False) == 0
    service.put(SHARD, [service.ms])
    assert query.batch() == 1
    assert query.offset.lost == 0


def test_a_shard_that_began_long_after_the_query_is_no_loss():
    # Its first record is sought from the moment the query began at, which is long gone.
    service = MemoryService(gap_ms=3_600_000)
    query = Query(service, Start(latest=True))
    for _ in range(60):
        service.advance(HOUR_MS)
        service.put(SHARD, [service.ms])
        query.batch()
    left, _ = service.split(SHARD)
    for _ in range(40):
        service.advance(HOUR_MS)
        query.restart()
        query.batch()
    service.put(left, [service.ms])
    query.drain()
    assert query.offset.lost == 0


def test_a_query_that_was_down_while_its_shard_was_silent_goes_on():
    # The record it has read last is gone by then, but nothing behind it.
    service, query = with_some_read(fail=True)
    for _ in range(30):
        service.advance(HOUR_MS)
        query.batch(again=False)
    service.advance(20 * HOUR_MS)
    service.put(SHARD, [service.ms])
    query.restart()
    assert query.batch() == 1


def test_a_moment_that_is_too_old_is_an_error_or_the_oldest_there_is():
    service = MemoryService()
    service.advance(30 * HOUR_MS)
    old = Start(everywhere=Position(Kind.TIME, time_ms=BEGAN_MS))
    with pytest.raises(DataLost, match="startingPosition is older"):
        planner_of(service, True).begin(old)
    begun = planner_of(service, False).begin(old)
    assert begun.shards == {SHARD: Position(Kind.TRIM, time_ms=service.ms)}
    assert begun.lost == 1


@pytest.mark.parametrize("kind", [Kind.AT, Kind.AFTER])
@pytest.mark.parametrize("silent", [False, True])
def test_a_sequence_number_that_has_been_trimmed_is_an_error_or_the_oldest_there_is(kind, silent):
    service = MemoryService(2)
    one, other = service.open()
    gone, _ = numbers(service.put(one, [service.ms, service.ms + 1]))
    service.advance(30 * HOUR_MS)
    left = [] if silent else numbers(service.put(one, [service.ms] * 3))
    (there,) = numbers(service.put(other, [service.ms]))
    start = Start(shards={one: Position(kind, gone), other: Position(Kind.AT, there)})
    with pytest.raises(DataLost, match=f"{one} has no record {gone} any more.*failOnDataLoss"):
        planner_of(service, True).begin(start)
    query = Query(service, start, fail=False)
    assert query.offset.lost == 1
    service.advance(1000)
    query.batch()
    assert query.delivered == ({} if silent else {one: left}) | {other: [there]}
    assert query.offset.lost == 1


def test_what_is_trimmed_after_a_start_by_sequence_number_is_noticed():
    service = MemoryService()
    first, _ = numbers(service.put(SHARD, [service.ms, service.ms + 1]))
    service.advance(23 * HOUR_MS)
    query = Query(service, Start(shards={SHARD: Position(Kind.AFTER, first)}))
    service.advance(2 * HOUR_MS)
    with pytest.raises(DataLost, match="has been trimmed before it was read"):
        query.plan()


def test_the_number_a_shard_began_with_is_its_oldest_record():
    service = MemoryService()
    (shard,) = service.shards()
    put = numbers(service.put(SHARD, [service.ms] * 3))
    service.advance(1000)
    query = Query(service, Start(shards={SHARD: Position(Kind.AT, shard.first)}))
    query.batch()
    assert query.delivered[SHARD] == put


def test_retention_is_asked_for_now_and_then_only():
    service, query = with_some_read(fail=True)
    asked = service.asked_retention
    for _ in range(100):
        service.advance(1000)
        query.batch(again=False)
    assert service.asked_retention == asked
    service.advance(HOUR_MS)
    query.batch(again=False)
    assert service.asked_retention == asked + 1


# The offset


def test_shards_are_forgotten_when_they_are_no_longer_listed_and_not_before():
    service, query = with_some_read(fail=True)
    left, right = service.split(SHARD)
    for hour in range(30):
        service.advance(HOUR_MS)
        service.put(left, [service.ms])
        query.batch()
        query.batch()
        kept = SHARD in query.offset.shards
        assert kept == (hour < 23), hour
        if kept:
            assert query.offset.shards[SHARD].kind is Kind.END
    assert set(query.offset.shards) == {left, right}


def test_nothing_to_read_is_the_same_offset():
    service, query = with_some_read(fail=True)
    service.advance(2000)
    plan = query.plan()
    assert plan.end == query.offset and not plan.ranges
    assert plan.behind_ms == 0
    assert plan.shards == 1
