import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.options import Connection, Options, Start
from dagster_sparkscale.sources.kinesis.plan_bounded import plan_bounded
from dagster_sparkscale.sources.kinesis.positions import Kind, Position
from dagster_sparkscale.sources.kinesis.read import read
from dagster_sparkscale.sources.kinesis.retention import DataLost

from .memory import BEGAN_MS, MemoryService
from .query import numbers
from .story import Put, arrived, change, services, steps

SHARD = "shardId-000000000000"


def batch_read(service, start=None, end=None, fail=True):
    """By shard, the sequence numbers in the order of the ranges."""
    options = Options(Connection("memory"), start, end, fail_on_data_loss=fail)
    found = {}
    for planned in plan_bounded(service, options, service.sleep):
        pages = list(read(service, planned, fail, service.sleep))
        found.setdefault(planned.shard, []).extend(
            number for page in pages for number in numbers(page)
        )
    return {shard: of for shard, of in found.items() if of}


def moment(ms):
    return Start(everywhere=Position(Kind.TIME, time_ms=ms))


def all_of(service):
    every = {shard: numbers(stored.records) for shard, stored in service.stored.items()}
    return {shard: of for shard, of in every.items() if of}


@settings(max_examples=60)
@given(services, st.lists(steps, max_size=20), st.booleans())
def test_everything_is_all_there_is(service, story, said):
    for what in story:
        change(service, what)
    service.advance(100)
    start = Start(everywhere=Position(Kind.TRIM)) if said else None
    assert batch_read(service, start, Start(latest=True) if said else None) == all_of(service)


@settings(max_examples=60)
@given(services, st.lists(steps, max_size=20), st.data())
def test_between_two_moments(service, story, data):
    for what in story:
        change(service, replace_jitter(what))
    service.advance(100)
    moments = st.integers(BEGAN_MS, service.ms + 1000)
    begin, until = sorted([data.draw(moments), data.draw(moments)])
    found = batch_read(service, moment(begin), moment(until))
    expected = {
        shard: [
            record["SequenceNumber"]
            for record, stamp in zip(stored.records, arrived(stored.records), strict=True)
            if begin <= stamp <= until
        ]
        for shard, stored in service.stored.items()
    }
    assert found == {shard: of for shard, of in expected.items() if of}


def replace_jitter(what):
    return (
        Put(what.shard, what.records, what.over_ms, 0, what.seed) if isinstance(what, Put) else what
    )


def test_a_moment_that_the_clock_is_not_known_to_have_passed_is_waited_for():
    service = MemoryService()
    service.put(SHARD, [service.ms] * 50)
    put = numbers(service.put(SHARD, [service.ms + 200] * 50))
    service.advance(300)
    service.ahead_ms = -1000  # the service's clock is known to the second
    assert batch_read(service, moment(BEGAN_MS + 100)) == {SHARD: put}
    assert service.ms - BEGAN_MS <= 300 + 1000
    assert batch_read(service, moment(service.ms + 60_000)) == {}
    assert service.ms - BEGAN_MS <= 300 + 1000, "what is far ahead is not waited for"


def test_from_the_tip_there_is_nothing():
    service = MemoryService()
    service.put(SHARD, [service.ms])
    assert batch_read(service, Start(latest=True)) == {}


def test_between_sequence_numbers():
    service = MemoryService()
    first = numbers(service.put(SHARD, range(BEGAN_MS, BEGAN_MS + 50)))
    service.advance(100)
    left, right = service.split(SHARD)
    second = numbers(service.put(left, range(service.ms, service.ms + 50)))
    service.put(right, [service.ms])
    service.advance(100)
    start = Start(shards={SHARD: Position(Kind.AFTER, first[9])})
    end = Start(shards={left: Position(Kind.AFTER, second[19])})
    assert batch_read(service, start, end) == {SHARD: first[10:], left: second[:20]}
    end = Start(shards={left: Position(Kind.AT, second[19])})
    assert batch_read(service, start, end) == {SHARD: first[10:], left: second[:19]}
    end = Start(shards={SHARD: Position(Kind.AT, first[12])})
    assert batch_read(service, start, end) == {SHARD: first[10:12]}
    # From a moment on, and from the oldest record on.
    assert batch_read(service, None, end) == {SHARD: first[:12]}
    assert batch_read(service, moment(BEGAN_MS + 5), end) == {SHARD: first[5:12]}


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        ((Kind.AFTER, 5), (Kind.AFTER, 5), []),
        ((Kind.AFTER, 5), (Kind.AT, 5), []),
        ((Kind.AT, 5), (Kind.AT, 5), []),
        ((Kind.AT, 5), (Kind.AFTER, 5), [5]),
        ((Kind.AFTER, 5), (Kind.AFTER, 3), []),
        ((Kind.AFTER, 5), (Kind.AFTER, 6), [6]),
        ((Kind.AT, 5), (Kind.AT, 6), [5]),
    ],
)
def test_ends_that_meet_or_lie_the_wrong_way_round(start, end, wanted):
    service = MemoryService()
    records = numbers(service.put(SHARD, [BEGAN_MS] * 10))
    begin = Start(shards={SHARD: Position(start[0], records[start[1]])})
    until = Start(shards={SHARD: Position(end[0], records[end[1]])})
    found = batch_read(service, begin, until)
    assert found.get(SHARD, []) == [records[number] for number in wanted]


def test_shards_the_stream_has_not():
    service = MemoryService()
    unknown = Start(shards={"shardId-7": Position(Kind.AFTER, "1")})
    with pytest.raises(KinesisError, match="endingPosition names shardId-7"):
        batch_read(service, end=unknown)
    with pytest.raises(KinesisError, match="startingPosition names shardId-7"):
        batch_read(service, start=unknown)


def test_an_end_that_no_record_of_the_shard_ever_was():
    service = MemoryService(2)
    one, other = service.open()
    records = numbers(service.put(one, range(BEGAN_MS, BEGAN_MS + 4)))
    strangers = numbers(service.put(other, [BEGAN_MS]))
    for sequence in (strangers[0], str(int(records[0]) - 10), str(int(records[-1]) + 10)):
        end = Start(shards={one: Position(Kind.AFTER, sequence)})
        for fail in (True, False):
            with pytest.raises(KinesisError, match=f"{one} has no record {sequence}: give"):
                batch_read(service, end=end, fail=fail)
    assert not service.returned, "nothing was read"


def test_an_end_between_two_records_of_the_shard_is_none():
    # The service need not refuse such a number: it may begin with the next record.
    service = MemoryService()
    records = numbers(service.put(SHARD, [BEGAN_MS] * 4))
    service.put(SHARD, [BEGAN_MS])
    del service.stored[SHARD].records[2]
    end = Start(shards={SHARD: Position(Kind.AFTER, records[2])})
    with pytest.raises(KinesisError, match="has no record"):
        batch_read(service, end=end)


def test_an_end_that_was_trimmed_is_lost_or_has_nothing_before_it():
    service = MemoryService(2)
    one, other = service.open()
    (old,) = numbers(service.put(one, [BEGAN_MS]))
    service.advance(30 * 3_600_000)
    service.put(one, [service.ms])
    (wanted,) = numbers(service.put(other, [service.ms]))
    end = Start(shards={one: Position(Kind.AFTER, old), other: Position(Kind.AFTER, wanted)})
    with pytest.raises(DataLost, match=f"endingPosition: {one} has no record {old}"):
        batch_read(service, end=end)
    assert batch_read(service, end=end, fail=False) == {other: [wanted]}


def test_a_moment_that_is_too_old():
    service = MemoryService()
    service.advance(30 * 3_600_000)
    service.put(SHARD, [service.ms])
    with pytest.raises(DataLost, match="startingPosition is older"):
        batch_read(service, moment(BEGAN_MS))
    assert batch_read(service, moment(BEGAN_MS), fail=False) == all_of(service)


def test_a_shard_that_is_split_between_listing_and_planning():
    service = MemoryService()
    service.put(SHARD, [service.ms])
    listed = service.shards
    service.advance(10)

    def shards():
        found = listed()
        if len(found) == 1:
            left, _ = service.split(SHARD)
            service.put(left, [service.ms])
        return found

    service.shards = shards
    assert batch_read(service) == all_of(service)
