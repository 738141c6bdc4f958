"""Tasks in the agent: what they take, of each executor and of the longest stages."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.batches.history import LIMIT
from dagster_sparkscale.driver.batches.reports import DoneBatch
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.spark.features import TASKS
from dagster_sparkscale.driver.spark.jvm import Jvm, PerContext
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.wire import Batch, TaskTimes

from .reading import TaskReader
from .window import Interval, Stretch, add, kept, sums


class TasksPart(Part):
    """Sums up what the tasks of the last minute took. Safe for threads."""

    def __init__(self, core: Core) -> None:
        self._private, self._seconds = core.private, kept(core.options.interval_ms)
        self._batches: deque[Interval] = deque(maxlen=LIMIT)
        self._readers = PerContext(self._reader)
        self._stretches: tuple[Stretch, ...] = ()
        self._look = Look("tasks", self._observe)
        self.looks = (self._look,)

    def _reader(self, context: Any) -> TaskReader | None:
        self._stretches = ()  # the numbers of another SparkContext's executors begin anew
        return self._private.use(TASKS, lambda: TaskReader(Jvm(context)), None)

    def _observe(self) -> TaskTimes | None:
        reader = self._readers.get()
        new = self._private.use(TASKS, reader.look, None) if reader else None
        if new is not None:
            self._stretches = add(self._stretches, new, self._seconds)
        return sums(self._stretches, tuple(self._batches))

    def completed(self, done: DoneBatch) -> Batch:
        batch = done.batch
        if batch.processing_ms > 0:
            ended = int(batch.completed_at * 1000)
            self._batches.append((ended - batch.processing_ms, ended))
        return batch

    def answer(self) -> Mapping[str, Any]:
        return {"tasks": self._look.lately}
