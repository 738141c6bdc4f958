"""Parts of tests that want a Spark of their own.

python -m tests.driver.state.on_spark PART FOLDER
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.folder import Folder
from dagster_sparkscale.driver.state.undo import files_of
from tests.driver.state.twins import change

KEYS = 200_000


def session(tasks: int) -> Any:
    return (
        SparkSession.builder.master(f"local[{tasks}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config(layout.PROVIDER, layout.ROCKSDB)
        .getOrCreate()
    )


def run(query: Any, mode: str, checkpoint: Path) -> list[Any]:
    """What it writes until there is no more for it."""
    written: list[Any] = []

    def collect(batch: Any, _number: int) -> None:
        written.extend(tuple(row) for row in batch.collect())

    writer = query.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).foreachBatch(collect).start().awaitTermination()
    return written


def keyless(folder: Path) -> Any:
    """Of an aggregation of all rows, before and after a change of 1 and of 2 partitions to 4."""
    spark, found = session(2), []
    for before in (1, 2):
        place = folder / str(before)
        (place / "in").mkdir(parents=True)
        spark.conf.set(layout.PARTITIONS, str(before))
        counts = spark.readStream.schema("key string").csv(str(place / "in")).agg(f.count("*"))
        counted, report = [], None
        for number in range(2):
            if number:
                report = change(spark, str(place / "checkpoint"), 4, 16)
            (place / "in" / f"{number}.csv").write_text("line\n" * 40)
            counted += [row[0] for row in run(counts, "complete", place / "checkpoint")]
        assert report is not None
        found.append((before, report["outcome"], report["reason"], counted))
    return found


def escaped(folder: Path) -> Any:
    """Of a checkpoint whose path has a space."""
    spark, checkpoint = session(2), folder / "my checkpoint"
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("line\n" * 40)
    spark.conf.set(layout.PARTITIONS, "2")
    counts = spark.readStream.schema("key string").csv(str(folder / "in")).groupBy("key").count()
    run(counts, "update", checkpoint)
    report = change(spark, str(checkpoint), 4, 16)
    return report["outcome"], report["reason"], sorted(each.name for each in folder.iterdir())


def failing(folder: Path) -> Any:
    """Files that are left by a change of which one task fails: at once, and later."""
    spark = session(8)
    spark.conf.set(layout.PARTITIONS, "4")
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("".join(f"key{i}\n" for i in range(KEYS)))
    lines = spark.readStream.schema("key string").csv(str(folder / "in"))
    counts = lines.groupBy("key").count().where("count < 0")
    run(counts, "update", folder / "checkpoint")
    checkpoint = Folder(spark, str(folder / "checkpoint"))
    (folder / "checkpoint" / "state" / "0" / "7").write_text("in the way")
    was = files_of(checkpoint)
    report = change(spark, checkpoint.path, 8, 16)
    at_once = sorted(files_of(checkpoint).keys() - was.keys())
    time.sleep(5)  # for what nothing waits for
    later = sorted(files_of(checkpoint).keys() - was.keys())
    return report["outcome"], report["reason"], at_once, later


PARTS = {"keyless": keyless, "escaped": escaped, "failing": failing}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](Path(sys.argv[2]))))
