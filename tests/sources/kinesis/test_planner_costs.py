"""How much planning and reading ask of the service, and how limits are kept."""

import random

import pytest

from dagster_sparkscale.sources.kinesis import shard_plan
from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.planner import CARRIED_BYTES
from dagster_sparkscale.sources.kinesis.positions import Kind

from .memory import BEGAN_MS, MemoryService
from .query import OLDEST, Query

SHARD = "shardId-000000000000"


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
    assert service.returned[SHARD] <= shard_plan.CARRIED_RECORDS + 1
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


def first_ranges_ms(limits, *changed):
    """How much of its time the first batch under each of some limits covers of a backlog."""
    service = MemoryService()
    service.put(SHARD, range(service.ms, service.ms + 120_000, 5))
    service.advance(120_000)
    query = Query(service, OLDEST, limits)
    covered = [5 * query.batch(again=False)]
    for limits in changed:
        query.limits = limits
        covered.append(5 * query.batch(again=False))
    return covered


@pytest.mark.parametrize(
    "limits",
    [
        Limits(span_ms=1000, duration_ms=10_000),
        Limits(span_ms=10_000, duration_ms=1000),
    ],
)
def test_of_several_limits_the_least_is_kept(limits):
    assert first_ranges_ms(limits) == [pytest.approx(1000, rel=0.1)]


def test_a_limit_of_the_duration_that_is_changed_holds_from_the_next_batch_on():
    found = first_ranges_ms(Limits(duration_ms=10_000), Limits(duration_ms=1000))
    assert found == [pytest.approx(10_000, rel=0.1), pytest.approx(1000, rel=0.1)]


def test_a_limit_of_the_duration_that_is_set_again_begins_anew():
    """What was learnt under it before is of a query that may have had another cluster since."""
    duration = Limits(duration_ms=1000)
    found = first_ranges_ms(duration, *[duration] * 4, Limits(span_ms=9000), duration)
    assert found[4] > 10_000, "the batches took no time, and so grew"
    assert found[5:] == [pytest.approx(9000, rel=0.1), pytest.approx(1000, rel=0.1)]


def test_a_limit_of_fewer_records_than_shards_takes_one_of_each():
    service = MemoryService(3)
    for shard in service.open():
        service.put(shard, range(service.ms, service.ms + 50))
    service.advance(1000)
    query = Query(service, OLDEST, Limits(records=2))
    assert [query.batch() for _ in range(4)] == [3, 3, 3, 3]


def test_a_stream_is_as_far_behind_as_its_shard_that_is_furthest_behind():
    service = MemoryService(2)
    query = Query(service, OLDEST, Limits(span_ms=5000))
    one, other = service.open()
    service.put(one, range(service.ms, service.ms + 60_000, 5))
    service.advance(60_000)
    service.put(other, [service.ms])
    assert query.plan().behind_ms == pytest.approx(55_000, abs=100)


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
