"""What a task of a DStream reads, how many records that is about, and planning ahead of it."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.sources.kinesis import records
from dagster_sparkscale.sources.kinesis.options import Limits, Options, parse
from dagster_sparkscale.sources.kinesis.planner import BatchPlan, Planner
from dagster_sparkscale.sources.kinesis.positions import Kind, Offset, Position
from dagster_sparkscale.sources.kinesis.ranges import Range
from dagster_sparkscale.sources.kinesis.records import KinesisRecord, about, read_ranges
from tests.sources.kinesis.memory import BEGAN_MS, MemoryService
from tests.sources.kinesis.query import OLDEST, numbers

OPTIONS: Options = parse({"streamName": "memory"})


def planner(service: MemoryService, **more: Any) -> Planner:
    return Planner(service, clock=service.seconds, **more)  # type: ignore[arg-type]


def evenly(service: MemoryService, count: int, every_ms: int) -> list[str]:
    put = service.put(service.open()[0], [BEGAN_MS + number * every_ms for number in range(count)])
    service.advance(count * every_ms + 5000)
    return numbers(put)


def test_a_task_reads_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    service = MemoryService()
    monkeypatch.setattr(records, "service_for", lambda connection: service)
    put = evenly(service, 3000, every_ms=10)
    planning = planner(service)
    plan = planning.plan(planning.begin(OLDEST), Limits())
    read = list(read_ranges(OPTIONS, plan.ranges))
    assert [record.sequence_number for record in read] == put[: len(read)]
    assert len(read) > 1000
    first = read[0]
    assert isinstance(first, KinesisRecord)
    assert first.data == b"x" * 12 and first.shard_id == service.open()[0]
    assert round(first.arrival.timestamp() * 1000) == BEGAN_MS
    assert first.sub_sequence_number is None
    assert list(read_ranges(replace(OPTIONS, deaggregate=False), plan.ranges)) == read
    assert about(plan.ranges[0]) == pytest.approx(len(read), rel=0.05)


def test_about_how_many_records() -> None:
    def stamped(*moments_ms: int) -> tuple[dict[str, Any], ...]:
        return tuple({"ApproximateArrivalTimestamp": each / 1000} for each in moments_ms)

    start, end = Position(Kind.TRIM), Position(Kind.AT, "9", 2000)
    assert about(Range("a", start, end, head=stamped(0, 100, 200))) == 3 + 18
    assert about(Range("a", start, end, head=stamped(0, 100))) == 2 + 19
    assert about(Range("a", start, end, head=stamped(0, 100, 200), whole=True)) == 3
    assert about(Range("a", start, Position(Kind.END), head=stamped(0, 100))) == 2
    assert about(Range("a", start, end, head=stamped(5, 5))) == 2
    assert about(Range("a", start, end)) == 0


class Ahead:
    """Plans batches of a backlog, each a good second after the one before."""

    def __init__(self) -> None:
        self.service = MemoryService()
        evenly(self.service, 60_000, every_ms=1)
        self.planner = planner(self.service, ahead=True)
        self.end: Offset = self.planner.begin(OLDEST)

    def plan(self) -> BatchPlan:
        plan = self.planner.plan(self.end, Limits(duration_ms=2000))
        self.end = plan.end
        self.service.advance(1000)
        return plan


def test_planning_ahead_goes_by_how_long_batches_took() -> None:
    stream = Ahead()
    first = stream.plan()
    assert first.covered_ms == pytest.approx(2000, rel=0.1)
    # Nothing is known yet: the time between two plans is the interval, and says nothing.
    assert stream.plan().covered_ms == pytest.approx(2000, rel=0.1)
    stream.planner.took(20_000, first.covered_ms)
    slow = stream.plan()
    assert slow.covered_ms < 0.7 * first.covered_ms
    assert stream.plan().covered_ms == pytest.approx(slow.covered_ms, rel=0.1)
    stream.planner.took(100, slow.covered_ms)
    assert stream.plan().covered_ms > 1.5 * slow.covered_ms


def test_what_running_drivers_name_in_their_tasks_is_where_it_was() -> None:
    by_name = b"cdagster_sparkscale.sources.kinesis.records\nread_ranges\n."
    assert pickle.loads(by_name) is read_ranges
    assert b"dagster_sparkscale.sources.kinesis.records" in pickle.dumps(read_ranges)
