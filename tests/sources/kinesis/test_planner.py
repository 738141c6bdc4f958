"""Whole cycles of planning and reading, on a stream in memory."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.options import Start
from dagster_sparkscale.sources.kinesis.positions import Kind, Position

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query, numbers
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
