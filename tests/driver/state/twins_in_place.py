"""Runs queries and their twins, of which one has its partitions changed while it runs, between any
two chunks.

    python -m tests.driver.state.twins_in_place FOLDER KEY_GROUPS NUMBERS SETTINGS OPERATOR...

As `tests.driver.state.twins`, but for each query, which is started once.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.batches.queries import Queries
from dagster_sparkscale.driver.batches.structured import StructuredStreaming
from dagster_sparkscale.driver.batches.tracked import StartedQuery
from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.operation_order import Admission
from dagster_sparkscale.driver.spark import task_slots
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.hook import Declared, StateHook
from dagster_sparkscale.driver.state.in_place import InPlaceChanges
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.succession import handles, writers
from dagster_sparkscale.driver.succession.passages import Passages
from dagster_sparkscale.driver.succession.runs import Runs
from tests.driver.serving import options
from tests.driver.state.operators import CHUNKS, ENDLESS, OPERATORS, SCHEMA, chunk
from tests.driver.state.twins import NO_DATA_BATCHES, checkpoint_of, line, session
from tests.waiting import HANGS, wait_for


class Driver:
    """What a driver does to change state in place, in this process."""

    def __init__(self, spark: Any, key_groups: int) -> None:
        private, passages = PrivateSpark(), Passages()
        self._hook, self._runs = StateHook(spark.version, Declared(key_groups, True)), Runs(private)
        handles.install(passages)
        writers.watch(DataStreamWriter)
        queries = Queries(History(), 1000)
        StructuredStreaming(queries, private, self._hook.before_start, self._started).install()
        self._changes = InPlaceChanges(
            *(self._hook, self._runs, passages, lambda: False),
            slots=lambda: task_slots.registered(spark.sparkContext, private),
            executors=ExecutorControl(options(), private, Admission()),
        )
        self._key_groups = key_groups

    def _started(self, started: StartedQuery) -> None:
        if (run := self._runs.note(started)) is not None:
            self._changes.noted(run)

    def change(
        self, query: str, partitions: int, number: int, beside: Limits | None = None
    ) -> dict[str, Any]:
        """Change the partitions of a query that runs; what that came to."""
        plan = StatePlan(f"{query} {number}", partitions, self._key_groups, True, (query,))
        self._changes.ask(plan, 60.0, beside)
        wait_for("the change to be over", lambda: not self._changes.busy, HANGS)
        return next(asdict(e) for e in self._hook.reconfigurations if e.id == plan.id)


class Running:
    """One query, started once."""

    def __init__(self, spark: Any, folder: Path, operator: str, name: str) -> None:
        query, mode = OPERATORS[operator]
        self._folder, self._written = folder, []
        self._sources = [folder / "events", folder / "other"]
        for each in self._sources:
            each.mkdir(parents=True)
        events, other = (spark.readStream.schema(SCHEMA).csv(str(each)) for each in self._sources)
        self.handle = (
            query(events, other)
            .writeStream.queryName(name)
            .outputMode(mode)
            .option("checkpointLocation", checkpoint_of(spark, folder, name))
            .trigger(processingTime="300 milliseconds")
            .foreachBatch(self._collect)
            .start()
        )

    def _collect(self, batch: Any, _number: int) -> None:
        self._written += [json.dumps(row.asDict(True), default=str) for row in batch.collect()]

    def run(self, number: int) -> list[str]:
        """What it writes for chunk `number`, in an order that does not depend on partitions. Of a
        chunk with an odd number each source has a batch of its own."""
        for source in self._sources:
            draft = self._folder / "draft"
            draft.write_text("".join(f"{line(*each)}\n" for each in chunk(number)))
            draft.rename(source / f"{number}.csv")
            if number % 2:
                self.handle.processAllAvailable()
        self.handle.processAllAvailable()
        written, self._written = sorted(self._written), []
        return written


def main(place: str, key_groups: str, numbers: str, settings: str, *operators: str) -> None:
    spark = session(json.loads(settings))
    driver, to = Driver(spark, int(key_groups)), [int(number) for number in numbers.split(",")]
    for operator in operators:
        spark.conf.set(NO_DATA_BATCHES, operator not in ENDLESS)
        names = [f"{operator}_{each}" for each in ("kept", "changed")]
        kept, changed = (Running(spark, Path(place) / name, operator, name) for name in names)
        chunks, changes = [], []
        for number in range(max(CHUNKS, len(to) + 1)):
            if 0 < number <= len(to):
                changes.append(driver.change(names[1], to[number - 1], number))
            chunks.append((kept.run(number), changed.run(number)))
        for each in (kept, changed):
            assert each.handle.isActive
            each.handle.stop()
        told = {"operator": operator, "chunks": chunks, "changes": changes}
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
