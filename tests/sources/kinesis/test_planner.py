"""Whole cycles of planning and reading, on a stream in memory."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis import look
from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.positions import Kind, Position

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query, numbers, planner_of

SHARD = "shardId-000000000000"


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
    query.drain(again=True, limited=LIMITED)
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
    for batches in range(100):
        if batches == LIMITED:
            query.limits = None
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


@pytest.mark.parametrize("fresh", [1, 5000])
def test_a_query_that_is_to_stop_ends_though_records_go_on_arriving(fresh):
    service = MemoryService()
    wanted = numbers(service.put(SHARD, range(service.ms, service.ms + 1000, 2)))
    service.advance(1000)
    query = Query(service)
    query.restart()
    query.stop_at(service.now_ms())
    found = []
    for _ in range(4):
        service.advance(10)
        service.put(SHARD, [service.ms] * fresh)
        found.append(query.batch())
    assert found[-1] == 0
    assert query.delivered[SHARD] == wanted


@pytest.mark.parametrize("earlier", [0, 500])
def test_a_query_that_is_to_stop_reads_what_arrived_since_it_knew_the_clock_better(earlier):
    service = MemoryService()
    service.put(SHARD, [service.ms] * earlier)
    service.advance(500)
    query = Query(service, Start(latest=True))
    wanted = numbers(service.put(SHARD, [service.ms + 10] * 5))
    service.advance(10)
    service.ahead_ms = -1000  # the service's clock is known to the second
    query.restart()
    query.stop_at()
    assert query.batch() == 5
    assert query.delivered[SHARD] == wanted
    assert query.batch() == 0


def test_what_a_query_that_is_to_stop_begins_far_ahead_is_not_waited_for():
    service = MemoryService()
    begins = Start(everywhere=Position(Kind.TIME, time_ms=service.ms + 60_000))
    query = Query(service, begins)
    query.stop_at()
    assert query.batch() == 0
    assert service.ms == BEGAN_MS


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
