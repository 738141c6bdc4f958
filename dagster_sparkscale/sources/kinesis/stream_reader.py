"""`spark.readStream`: what plans the batches of a query, and what its tasks read."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .live_limits import heeded, live
from .options import Options, Start
from .planner import BatchPlan, Planner
from .positions import Offset
from .ranges import between
from .service import service_for
from .tasks import Reads, ShardPartition


class StreamReader(Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`. One batch is planned at a time, by one thread."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._planner: Planner | None = None
        self._initial: Offset | None = None
        self._began = False
        self._plan: tuple[Offset, BatchPlan] | None = None
        self._limit: int | None = None
        """Records that the last plan kept to; None: it had no such limit."""

    def __getstate__(self) -> dict[str, Any]:
        # To executors go the options; clients and plans stay with the driver.
        return {"_options": self._options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["_options"])  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            start = self._options.start or Start(latest=True)
            self._initial = self._planning().begin(start)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Asked once per start of a query, so it only tells a trigger that wants everything from
        # the others: the limits themselves are looked up at every batch.
        return ReadMaxRows(2**62)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planning().stop_at()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = Offset.from_json(start, self._options.connection.stream)
        everything = isinstance(limit, ReadAllAvailable)
        latest = self._options.start is None or self._options.start.latest
        if not self._began and begin == self._initial and (latest or not everything):
            # Spark writes down where a batch ends, never where the first one begins. An empty
            # first batch has it kept: a query that is killed in its next one begins there again.
            # Trigger.Once has one batch, which only a start that may move has to be given up for.
            self._began = True
            return start
        planner = self._planning()
        if everything:
            # Trigger.Once has no next batch, for what arrived a moment ago or for the children of
            # a shard that ends in this one.
            planner.stop_at()
            plan, self._limit = planner.everything(begin), None
        else:
            limits = live(self._options)
            plan = planner.plan(begin, limits)
            self._limit = heeded(limits, plan.shards)
        self._plan = (begin, plan)
        return plan.end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Report how far the stream is from its tip, instead of an offset: the agent, and anyone,
        reads it in the query's progress."""
        if self._plan is None:
            return None
        _, plan = self._plan
        return {
            "v": 1,
            "stream": plan.end.stream,
            "behind_ms": plan.behind_ms,
            "shards": plan.shards,
            "lost": plan.end.lost,
            "limit": self._limit,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        stream = self._options.connection.stream
        begin, until = Offset.from_json(start, stream), Offset.from_json(end, stream)
        if self._plan is not None and self._plan[0] == begin and self._plan[1].end == until:
            return [ShardPartition(planned) for planned in self._plan[1].ranges]
        # A batch that was planned before a crash: the same ends, and nothing read beforehand.
        planner = self._planning()
        planner.check(begin)
        ranges = between(begin, until, planner.kept_ms())
        return [ShardPartition(planned) for planned in ranges]

    def _planning(self) -> Planner:
        if self._planner is None:
            service = service_for(self._options.connection)
            self._planner = Planner(service, self._options.fail_on_data_loss)
        return self._planner
