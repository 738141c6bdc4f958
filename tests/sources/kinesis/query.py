"""A query on a stream in memory: plans, reads, crashes and comes back, as Spark has it do."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable

from dagster_sparkscale.sources.kinesis.options import Limits, Start
from dagster_sparkscale.sources.kinesis.planner import BatchPlan, Planner
from dagster_sparkscale.sources.kinesis.positions import Kind, Offset, Position
from dagster_sparkscale.sources.kinesis.ranges import Range, between
from dagster_sparkscale.sources.kinesis.read import read
from dagster_sparkscale.sources.kinesis.service import Record

from .memory import MemoryService

OLDEST = Start(everywhere=Position(Kind.TRIM))
Rows = dict[str, list[str]]


def numbers(records: Iterable[Record]) -> list[str]:
    return [record["SequenceNumber"] for record in records]


def rows(service: MemoryService, ranges: Iterable[Range], fail: bool = True) -> Rows:
    """The sequence numbers of what some ranges hold, by shard."""
    found: Rows = {}
    for each in ranges:
        assert each.shard not in found, f"{each.shard} is in the plan twice"
        pages = list(read(service, each, fail, service.sleep))  # type: ignore[arg-type]
        assert all(pages), "an empty list of records"
        found[each.shard] = [number for page in pages for number in numbers(page)]
    return {shard: of for shard, of in found.items() if of}


def through_json(offset: Offset) -> Offset:
    return Offset.from_json(json.loads(json.dumps(offset.to_json())), offset.stream)


def planner_of(service: MemoryService, fail: bool = True) -> Planner:
    return Planner(service, fail, service.seconds, service.sleep)  # type: ignore[arg-type]


class Query:
    """One query from its start; what it delivers is checked batch by batch."""

    def __init__(
        self,
        service: MemoryService,
        start: Start = OLDEST,
        limits: Limits | None = Limits(),  # noqa: B008 - it is frozen
        fail: bool = True,
    ) -> None:
        self.service = service
        self.limits = limits
        self.fail = fail
        self.planner = planner_of(service, fail)
        self.offset = through_json(self.planner.begin(start))
        self.delivered: Rows = defaultdict(list)
        self.stop_ms: int | None = None
        self.plans = 0

    def restart(self) -> None:
        """As after a crash: only the offset is left."""
        self.planner = planner_of(self.service, self.fail)
        if self.stop_ms is not None:
            self.planner.stop_at(self.stop_ms)

    def stop_at(self, moment_ms: int | None = None) -> None:
        self.stop_ms = self.service.now_ms() if moment_ms is None else moment_ms
        self.planner.stop_at(moment_ms)

    def plan(self) -> BatchPlan:
        self.plans += 1
        return self.planner.plan(self.offset, self.limits)

    def batch(
        self,
        again: bool = True,
        thrown_away: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> int:
        """One batch; how many records it had.

        Args:
            again: read it a second time as after a crash, which must have the same records.
            thrown_away: it is planned, and the query dies before that is written down.
            meanwhile: done between planning and reading.
        """
        plan = self.plan()
        if thrown_away:
            self.restart()
            plan = self.plan()
        until = through_json(plan.end)
        meanwhile()
        found = rows(self.service, plan.ranges, self.fail)
        if again:
            planner_of(self.service, self.fail).check(self.offset)
            repeated = rows(self.service, between(self.offset, until), self.fail)
            assert repeated == found, "a batch that is repeated is not the same"
        self._take(found)
        self.offset = until
        return sum(len(of) for of in found.values())

    def _take(self, found: Rows) -> None:
        for shard in found:
            for name in self.service.stored[shard].parents:
                parent = self.service.stored[name]
                if name in self.offset.shards and not self.service.is_gone(parent):
                    assert self.left(name) == 0, f"{shard} is read before its parent {name}"
        for shard, of in found.items():
            self.delivered[shard] += of

    def left(self, shard: str) -> int:
        """How many records of a shard are yet to come, if all of it is to be read."""
        return len(self.service.stored[shard].records) - len(self.delivered[shard])

    def waiting(self) -> int:
        return sum(self.left(shard) for shard in self.service.stored)

    def drain(
        self, idle: int = 30, every_ms: int = 1000, again: bool = False, limited: int | None = None
    ) -> None:
        """Batches until all there is has been delivered.

        Args:
            limited: the limits are lifted after so many batches: what is to be seen of a batch of
                one record is seen in a few of them.

        Raises:
            AssertionError: nothing came for `idle` batches, though there is something.
        """
        nothing = batches = 0
        while self.waiting():
            if batches == limited:
                self.limits = None
            batches += 1
            self.service.advance(every_ms)
            nothing = 0 if self.batch(again) else nothing + 1
            assert nothing < idle, f"{self.waiting()} records are left, and nothing comes"

    def check_everything(self) -> None:
        for shard, stored in self.service.stored.items():
            assert self.delivered[shard] == numbers(stored.records), shard
