"""Whole cycles of planning and reading, on a stream in memory."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis import look
from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.planner import CARRIED_BYTES
from dagster_sparkscale.sources.kinesis.positions import Kind, Position
from dagster_sparkscale.sources.kinesis.retention import DataLost

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query, numbers, planner_of


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


@pytest.fixture
def few_carried(monkeypatch):
    """Few records go with a plan, so that a few hundred are enough to have it look further."""
    monkeypatch.setattr(look, "CARRIED_RECORDS", 10)


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


@settings(max_examples=100)
@given(services | emulators, limits, st.lists(steps, max_size=25))
def test_every_record_comes_exactly_once_and_in_order_whatever_happens(service, limit, story):
    exactly_once(service, limit, story)


@settings(max_examples=100)
@given(services | emulators, limits, st.lists(steps, max_size=25))
@pytest.mark.usefixtures("few_carried")
def test_so_it_does_where_little_goes_with_a_plan(service, limit, story):
    exactly_once(service, limit, story)


def exactly_once(service, limit, story):
    query = Query(service, OLDEST, limit)
    for what in story:
        run(query, what)
    query.drain(again=True)
    query.check_everything()


def arrived(records):
    return [record["ApproximateArrivalTimestamp"] * 1000 for record in records]


def wanted_until(service, moment_ms):
    """By shard, what comes before the first record that arrived after `moment_ms`."""
    found = {}
    for shard, stored in service.stored.items():
        stamps = arrived(stored.records)
        late = (n for n, stamp in enumerate(stamps) if stamp > moment_ms)
        within = next(late, len(stamps))
        if within:
            found[shard] = [record["SequenceNumber"] for record in stored.records[:within]]
    return found


@settings(max_examples=80)
@given(
    services | emulators,
    limits,
    st.lists(steps, max_size=12),
    st.lists(steps, max_size=12),
    st.data(),
)
@pytest.mark.usefixtures("few_carried")
def test_a_query_that_is_to_stop_reads_up_to_then_and_ends(service, limit, story, later, data):
    query = Query(service, OLDEST, limit)
    for what in story:
        run(query, what)
    query.restart()
    query.stop_at(service.now_ms())
    moment = service.ms
    service.advance(1)
    for _ in range(3000):
        service.advance(data.draw(st.sampled_from([0, 100, 3000]), label="passes"))
        if later:
            what = later.pop()
            if isinstance(what, Put):
                # A stamp from before the stop, behind one from after it, would not be read.
                what = replace(what, jitter_ms=0)
            change(service, what)
        before = query.offset
        query.batch(again=True)
        if query.offset == before:
            break
    else:
        raise AssertionError("it does not end")
    for shard, of in wanted_until(service, moment).items():
        assert query.delivered[shard][: len(of)] == of, shard
    for shard, stored in service.stored.items():
        read = len(query.delivered[shard])
        assert all(stamp <= moment for stamp in arrived(stored.records[:read])), shard


# Where to begin


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
    query.drain(again=True)
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
    query.drain(again=True)
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
    assert offset.shards == {one: at, other: Position(Kind.TRIM, time_ms=service.ms)}


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


# Data that is lost


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


# What it costs


def arrivals(kind, rate, begin_ms, end_ms, chance):
    count = rate * (end_ms - begin_ms) // 1000
    if kind == "even":
        return [begin_ms + number * 1000 // rate for number in range(count)]
    if kind == "by chance":
        return sorted(chance.randrange(begin_ms, end_ms) for _ in range(count))
    bursts = (chance.randrange(begin_ms, end_ms) for _ in range(max(1, count // 100)))
    return [at for at in sorted(bursts) for _ in range(100)]


@pytest.mark.parametrize("rate", [50, 200, 1000])
@pytest.mark.parametrize("seconds", [2, 7])
@pytest.mark.parametrize("kind", ["even", "by chance", "in bursts"])
def test_hardly_anything_is_read_twice_while_a_query_keeps_up(kind, seconds, rate):
    """Records go on arriving between planning and reading: what a page holds of them is in vain."""
    service = MemoryService(2)
    query = Query(service, Start(latest=True), Limits(duration_ms=10_000))
    chance = random.Random(7)

    def pass_by(ms):
        for shard in service.open():
            service.put(shard, arrivals(kind, rate, service.ms, service.ms + ms, chance), 200)
        service.advance(ms)

    delivered, batches = 0, 4
    for batch in range(-2, batches):
        if batch == 0:  # By then the planner knows the stream.
            delivered = 0
            service.returned.clear()
            service.calls.clear()
        pass_by(600 * seconds)
        delivered += query.batch(again=False, meanwhile=lambda: pass_by(400 * seconds))
    assert sum(service.returned.values()) <= 1.2 * delivered
    assert sum(service.calls.values()) / batches / 2 <= 6


def test_a_backlog_is_read_in_large_pages():
    service = MemoryService()
    query = Query(service, OLDEST)
    service.put(SHARD, range(service.ms, service.ms + 200_000))
    service.advance(200_000)
    while query.waiting():
        query.batch(again=False)
    assert service.returned[SHARD] <= 1.05 * 200_000
    assert service.calls[SHARD] <= 1.5 * 20


def test_a_service_that_always_says_it_is_at_the_tip_is_not_believed():
    service = MemoryService(always_at_tip=True)
    service.put(SHARD, range(service.ms, service.ms + 20_000, 2))
    service.advance(25_000)
    query = Query(service)
    found = [query.batch() for _ in range(2)]
    assert sum(found) == 10_000, found


def test_a_shard_that_has_just_fallen_silent_is_read_by_executors():
    # No record is left to end at near the present: one a little further back will do.
    service = MemoryService()
    service.put(SHARD, range(service.ms, service.ms + 20_000, 2))
    service.advance(21_000)
    query = Query(service)
    (planned,) = query.plan().ranges
    assert planned.end.kind is Kind.AT
    assert BEGAN_MS + 19_000 <= planned.end.time_ms < BEGAN_MS + 20_000
    assert service.returned[SHARD] <= look.CARRIED_RECORDS + 1
    assert query.batch() + query.batch() == 10_000


def test_a_limit_in_records_is_about_kept():
    service = MemoryService(2)
    query = Query(service, OLDEST, Limits(records=4000))
    for _ in range(60):
        for shard in service.open():
            service.put(shard, range(service.ms, service.ms + 1000, 5))
        service.advance(1000)
    found = [query.batch(again=False) for _ in range(6)]
    assert all(3200 <= records <= 4800 for records in found[1:]), found


def test_a_span_is_kept():
    service = MemoryService(2)
    query = Query(service, OLDEST, Limits(span_ms=5000))
    for shard in service.open():
        service.put(shard, range(service.ms, service.ms + 60_000, 2))
    service.advance(60_000)
    found = [query.batch(again=False) for _ in range(5)]
    assert found[1:] == [5000, 5000, 5000, 5000]
    plan = query.plan()
    assert plan.behind_ms == pytest.approx(60_000 - sum(found) - 5000, abs=100)


def test_what_goes_with_a_plan_is_bounded():
    service = MemoryService(40)
    query = Query(service, OLDEST)
    for shard in service.open():
        service.put(shard, range(service.ms, service.ms + 2000), 1000)
    service.advance(5000)
    query.batch(again=False)
    sizes = [sum(len(record["Data"]) for record in each.head) for each in query.plan().ranges]
    assert len(sizes) == 40
    assert sum(sizes) <= 1.4 * CARRIED_BYTES, "in base64"
