"""Where a query begins, on a stream in memory."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.options import Start
from dagster_sparkscale.sources.kinesis.positions import Kind, Position

from .memory import BEGAN_MS, MemoryService
from .query import Query, numbers, planner_of
from .story import LIMITED, Batch, Put, arrived, change, limits, run, services, steps

SHARD = "shardId-000000000000"


def test_latest_has_nothing_to_do_with_shards_that_are_closed():
    service = MemoryService()
    service.put(SHARD, [service.ms])
    children = service.split(SHARD)
    service.advance(1000)
    query = Query(service, Start(latest=True))
    assert set(query.offset.shards) == set(children)
    query.batch()
    assert not service.calls[SHARD]
    # Nor is it a loss when such a shard is gone, the query having been down.
    service.advance(23 * 3_600_000)
    query.batch()
    service.advance(23 * 3_600_000)
    query.restart()
    assert query.batch() == 0


def test_latest_is_kept_to_though_the_children_of_a_split_are_listed_late(monkeypatch):
    service = MemoryService()
    service.put(SHARD, [service.ms])
    left, _ = service.split(SHARD)
    service.put(left, [service.ms])
    service.advance(1000)
    with monkeypatch.context() as late:
        parent = service.shards()[:1]
        late.setattr(service, "shards", lambda: parent)
        query = Query(service, Start(latest=True))
    for shard, stored in service.stored.items():
        query.delivered[shard] = numbers(stored.records)
    service.put(left, [service.ms])
    query.drain(again=True)
    query.check_everything()


@settings(max_examples=50)
@given(services, limits, st.lists(steps, max_size=10), st.lists(steps, max_size=15))
@pytest.mark.usefixtures("few_carried")
def test_latest_is_what_arrives_after_the_query_began(service, limit, story, later):
    for what in story:
        change(service, what)
    service.advance(1)
    query = Query(service, Start(latest=True), limit)
    for shard, stored in service.stored.items():
        query.delivered[shard] = numbers(stored.records)
    for what in later:
        if isinstance(what, Put):
            # Of a stamp from before the beginning one does not know when it was put.
            what = replace(what, jitter_ms=0)
        run(query, replace(what, put=None) if isinstance(what, Batch) else what)
    query.drain(again=True, limited=LIMITED)
    query.check_everything()


@settings(max_examples=50)
@given(services, limits, st.lists(steps, max_size=10), st.data())
@pytest.mark.usefixtures("few_carried")
def test_a_moment_is_all_that_arrived_then_or_later(service, limit, story, data):
    for what in story:
        change(service, replace(what, jitter_ms=0) if isinstance(what, Put) else what)
    moment = data.draw(st.integers(BEGAN_MS - 1000, service.ms + 1000), label="moment") // 10 * 10
    query = Query(service, Start(everywhere=Position(Kind.TIME, time_ms=moment)), limit)
    for shard, stored in service.stored.items():
        stamps = arrived(stored.records)
        earlier = sum(stamp < moment for stamp in stamps)
        query.delivered[shard] = numbers(stored.records[:earlier])
    early = service.open()[0]
    while service.ms < moment - 50:
        service.advance(50)
        query.delivered[early] += numbers(service.put(early, [service.ms]))
        assert query.batch() == 0, "before its time"
    service.advance(200)
    service.put(early, [service.ms])
    query.drain(again=True, limited=LIMITED)
    query.check_everything()


def test_a_moment_that_is_yet_to_come_is_waited_for():
    service = MemoryService()
    moment = Position(Kind.TIME, time_ms=service.ms + 1000)
    query = Query(service, Start(everywhere=moment))
    for _ in range(10):
        service.put(SHARD, [service.ms])
        assert query.batch() == 0
        service.advance(100)
    assert not service.calls, "nothing is read in vain"
    (wanted,) = numbers(service.put(SHARD, [service.ms]))
    service.advance(100)
    assert query.batch() == 1
    assert query.delivered[SHARD] == [wanted]


def test_records_with_earlier_stamps_behind_a_moment_are_the_same_when_read_again():
    service = MemoryService()
    service.put("shardId-000000000000", [service.ms - 50])
    query = Query(service, Start(latest=True))
    assert query.batch() == 0
    service.advance(20)
    # The first was stamped by a clock that is behind; the first of those asked for comes second.
    service.put("shardId-000000000000", [BEGAN_MS - 3, BEGAN_MS + 10, BEGAN_MS - 1, BEGAN_MS + 11])
    service.advance(2000)
    assert query.batch(again=True) == 3


def test_sequence_numbers_go_on_right_behind_them():
    service = MemoryService(2)
    one, other = service.open()
    first = numbers(service.put(one, range(BEGAN_MS, BEGAN_MS + 300)))
    second = numbers(service.put(other, range(BEGAN_MS, BEGAN_MS + 300)))
    service.advance(300)
    start = {one: Position(Kind.AFTER, first[99]), other: Position(Kind.AT, second[99])}
    query = Query(service, Start(shards=start))
    children = service.split(one)
    service.advance(1000)
    more = numbers(service.put(children[0], [service.ms] * 10))
    query.delivered[one] = first[:100]
    query.delivered[other] = second[:99]
    query.drain(again=True)
    query.check_everything()
    assert query.delivered[children[0]] == more


def test_a_map_has_to_name_every_shard_that_another_does_not_stand_for():
    service = MemoryService(2)
    one, other = service.open()
    (sequence,) = numbers(service.put(one, [service.ms]))
    left, _ = service.split(one)
    at = Position(Kind.AFTER, sequence)
    with pytest.raises(KinesisError, match=f"does not say where to begin in {other}"):
        planner_of(service).begin(Start(shards={one: at}))
    with pytest.raises(KinesisError, match="names shardId-7, which the stream has not"):
        planner_of(service).begin(Start(shards={one: at, "shardId-7": at}))
    with pytest.raises(KinesisError, match="does not say where to begin in shardId-000000000003"):
        planner_of(service).begin(Start(shards={left: at, other: at}))
    trim = Position(Kind.TRIM)
    offset = planner_of(service).begin(Start(shards={one: at, other: trim}))
    found = Position(Kind.AFTER, sequence, BEGAN_MS)
    assert offset.shards == {one: found, other: Position(Kind.TRIM, time_ms=service.ms)}


def test_a_map_does_not_name_a_shard_and_another_that_it_descends_from():
    """What lies between the two would be skipped; and if nothing does, their order be lost."""
    service = MemoryService(1)
    (root,) = service.open()
    left, right = service.split(root)
    lower, upper = service.split(left)
    trim = Position(Kind.TRIM)
    for named, below, above in (
        ({root, lower}, lower, root),
        ({root, left}, left, root),
        ({lower, upper, left, right}, lower, left),
    ):
        said = f"startingPosition names {below} and {above}, which it descends from"
        with pytest.raises(KinesisError, match=said):
            planner_of(service).begin(Start(shards={shard: trim for shard in named}))
    assert set(planner_of(service).begin(Start(shards={root: trim})).shards) == {root}
    named = {lower, upper, right}
    begun = planner_of(service).begin(Start(shards={shard: trim for shard in named}))
    assert set(begun.shards) == named


def test_a_shard_that_is_passed_over_is_not_read():
    service = MemoryService(1)
    (one,) = service.open()
    service.put(one, [service.ms])
    left, right = service.split(one)
    trim = Position(Kind.TRIM)
    query = Query(service, Start(shards={left: trim, right: trim}))
    service.put(left, [service.ms])
    query.delivered[one] = numbers(service.stored[one].records)
    query.drain(again=True)
    query.check_everything()
