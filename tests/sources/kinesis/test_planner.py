"""Whole cycles of planning and reading, on a stream in memory."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.positions import Kind, Position
from dagster_sparkscale.sources.kinesis.ranges import between

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query, numbers, planner_of, rows, through_json
from .story import LIMITED, Put, arrived, change, emulators, limits, run, services, steps

SHARD = "shardId-000000000000"


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


@pytest.mark.parametrize("silent_s", [0, 10, 61, 100, 3000])
@pytest.mark.parametrize("hangs_on_times", [False, True])
def test_a_query_that_is_to_stop_takes_a_silent_shard_in_one_batch(silent_s, hangs_on_times):
    service = MemoryService(hangs_on_times=hangs_on_times)
    wanted = numbers(service.put(SHARD, range(service.ms, service.ms + 90_000, 3)))
    service.advance(90_000 + silent_s * 1000)
    query = Query(service)
    query.stop_at()
    plan = query.plan()
    if not hangs_on_times:
        assert service.returned[SHARD] < 2000, "what tasks read is not read to plan it too"
    assert query.batch() == len(wanted)
    assert query.delivered[SHARD] == wanted
    assert plan.behind_ms <= silent_s * 1000 + 1000
    assert query.batch() == 0


def test_a_query_goes_on_in_few_batches_where_a_shard_has_fallen_silent():
    service = MemoryService()
    service.put(SHARD, range(service.ms, service.ms + 90_000, 3))
    service.advance(190_000)
    query = Query(service)
    query.plan()
    assert service.returned[SHARD] < 2000, "what tasks read is not read to plan it too"
    assert query.batch() > 26_000
    assert query.batch() > 0
    assert query.waiting() == 0


@pytest.mark.parametrize("limits", [Limits(records=12_000), Limits(bytes=144_000)])
def test_limits_are_kept_where_ends_are_found_by_reading_on(limits):
    service = MemoryService(hangs_on_times=True)
    service.put(SHARD, [service.ms] * 40_000)
    service.advance(1000)
    query = Query(service, limits=limits)
    query.stop_at()
    assert [query.batch() for _ in range(5)] == [12_000, 12_000, 12_000, 4000, 0]


def everything(service, start):
    planner = planner_of(service)
    planner.stop_at()
    return planner.everything(start)


def test_everything_is_all_there_is_with_parents_before_their_children():
    service = MemoryService(2)
    one, other = service.open()
    service.put(one, range(service.ms, service.ms + 5000))
    service.put(other, range(service.ms, service.ms + 5000))
    service.advance(6000)
    left, _ = service.split(one)
    service.put(left, range(service.ms, service.ms + 5000))
    service.advance(6000)
    merged = service.merge(left, other)
    service.put(merged, range(service.ms, service.ms + 5000))
    service.advance(200_000)
    start = planner_of(service).begin(OLDEST)
    plan = everything(service, start)
    assert [each.shard for each in plan.ranges if each.shard in (one, left, merged)] == [
        one,
        left,
        merged,
    ]
    wanted = {shard: numbers(stored.records) for shard, stored in service.stored.items()}
    wanted = {shard: of for shard, of in wanted.items() if of}
    assert rows(service, plan.ranges) == wanted
    assert rows(service, between(start, through_json(plan.end))) == wanted


@settings(max_examples=60)
@given(services | emulators, st.lists(steps, max_size=20), st.booleans())
@pytest.mark.usefixtures("few_carried")
def test_everything_is_all_there_is_whatever_has_happened(service, story, begun):
    query = Query(service, OLDEST, None)
    for what in story:
        run(query, what) if begun else change(service, what)
    service.advance(100)
    plan = everything(service, query.offset)
    for shard, of in rows(service, plan.ranges).items():
        query.delivered[shard] += of
    query.check_everything()
