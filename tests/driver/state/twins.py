"""Runs queries and their twins, of which one has its partitions changed between any two chunks.

    python -m tests.driver.state.twins FOLDER KEY_GROUPS NUMBERS SETTINGS OPERATOR...

SETTINGS are more of Spark's, as JSON. From the second chunk on another format of state stores is
set than the checkpoints were begun with, by which they go on. Prints a line of JSON an operator:
what both wrote for each chunk, and what each change came to.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dagster_sparkscale.driver.state import layout, reconfigure
from dagster_sparkscale.driver.state.folder import Folder
from dagster_sparkscale.driver.state.hook import CHECKPOINTS
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reporting import Reporting
from tests.driver.state.operators import CHUNKS, ENDLESS, OPERATORS, SCHEMA, chunk

BEGIN = 4
"""Partitions of every query in the beginning."""
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def session(settings: Mapping[str, str]) -> Any:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(BEGIN))
        .config("spark.sql.session.timeZone", "UTC")
        .config(layout.PROVIDER, layout.ROCKSDB)
        .config(map=dict(settings))
        .getOrCreate()
    )


def change(spark: Any, checkpoint: str, partitions: int, key_groups: int) -> dict[str, Any]:
    """Change the partitions of a query that does not run; what that came to."""
    folder = Folder(spark, checkpoint)
    report = Reporting(f"to {partitions}", "twin", before=None, after=partitions)
    plan = StatePlan(
        report.change.id, partitions, key_groups, plain_hash=bool(key_groups % partitions)
    )
    reconfigure.Attempt(spark, folder, Journal(folder), plan, report, spark.version).carry_out()
    return asdict(report.change)


def checkpoint_of(spark: Any, folder: Path, name: str) -> str:
    """In `folder`, unless the settings name a place for all."""
    root = spark.conf.get(CHECKPOINTS, None)
    return str(folder / "checkpoint") if root is None else f"{root}/{name}"


class Twin:
    """One query, run a chunk at a time."""

    def __init__(self, spark: Any, folder: Path, operator: str) -> None:
        self._spark, self._folder = spark, folder
        self._query, self._mode = OPERATORS[operator]
        spark.conf.set(NO_DATA_BATCHES, operator not in ENDLESS)
        self.checkpoint = checkpoint_of(spark, folder, f"{operator}-{folder.name}")
        (folder / "in").mkdir(parents=True)

    def run(self, number: int) -> list[str]:
        """What it writes for chunk `number`, in an order that does not depend on partitions."""
        lines = [line(*each) for each in chunk(number)]
        (self._folder / "in" / f"{number}.csv").write_text("\n".join(lines) + "\n")
        written: list[str] = []

        def collect(batch: Any, _number: int) -> None:
            written.extend(json.dumps(row.asDict(True), default=str) for row in batch.collect())

        events, other = (
            self._spark.readStream.schema(SCHEMA).csv(str(self._folder / "in")) for _ in range(2)
        )
        query = (
            self._query(events, other)
            .writeStream.outputMode(self._mode)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(collect)
            .start()
        )
        query.awaitTermination()
        return sorted(written)


def line(second: int, key: int, value: int) -> str:
    """An event as it comes in a file."""
    return f"2026-01-01 00:{second // 60:02d}:{second % 60:02d},{key},{value}"


def main(place: str, key_groups: str, numbers: str, settings: str, *operators: str) -> None:
    spark = session(json.loads(settings))
    format = spark.conf.get(layout.FORMAT, "1")
    for operator in operators:
        spark.conf.set(layout.FORMAT, format)
        folder = Path(place) / operator
        kept, changed = (Twin(spark, folder / name, operator) for name in ("kept", "changed"))
        chunks, changes = [], []
        to = [int(number) for number in numbers.split(",")]
        for number in range(max(CHUNKS, len(to) + 1)):
            if 0 < number <= len(to):
                report = change(spark, changed.checkpoint, to[number - 1], int(key_groups))
                changes.append(report)
            chunks.append((kept.run(number), changed.run(number)))
            spark.conf.set(layout.FORMAT, "1" if format == "2" else "2")
        told = {"operator": operator, "chunks": chunks, "changes": changes}
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
