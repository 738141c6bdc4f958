"""Parts of tests that need no driver, in one Spark.

    python -m tests.driver.state.on_spark FOLDER

Each has a folder of its name in FOLDER. Prints a line of JSON with what each has found.
"""

import json
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import changes
from dagster_sparkscale.driver.state.beside.replaying import CHANGELOGS
from dagster_sparkscale.driver.state.folder import Folder
from dagster_sparkscale.driver.state.tasks import cancelled_once, grouped, wait_until_still
from dagster_sparkscale.driver.state.uncounted import COUNTED
from dagster_sparkscale.driver.state.undo import files_of
from tests.driver.state.twins import change
from tests.waiting import wait_for

KEYS = 200_000
TASKS = 8
"""At a time: as many as there are partitions in what fails."""


def session(place: Path) -> Any:
    """Spark, which keeps what it shuffles in `place`."""
    return (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(place))
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


def keyless(spark: Any, folder: Path) -> Any:
    """Of an aggregation of all rows, before and after a change of 1 and of 2 partitions to 4."""
    found = []
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


def limited(spark: Any, folder: Path) -> Any:
    """Of a limit of a stream, after a deduplication too, before and after a change of 2 partitions
    to 4: how many rows were written in all."""
    spark.conf.set(layout.PARTITIONS, "2")
    found = []
    for deduplicates in (False, True):
        place = folder / str(deduplicates)
        (place / "in").mkdir(parents=True)
        lines = spark.readStream.schema("key string").csv(str(place / "in"))
        limit = (lines.dropDuplicates(["key"]) if deduplicates else lines).limit(50)
        written, report = 0, None
        for number in range(2):
            if number:
                report = change(spark, str(place / "checkpoint"), 4, 16)
            keys = range(40 * number, 40 * number + 40)
            (place / "in" / f"{number}.csv").write_text("".join(f"key{i}\n" for i in keys))
            written += len(run(limit, "append", place / "checkpoint"))
        assert report is not None
        found.append((report["outcome"], report["reason"], written))
    return found


def stateless(spark: Any, folder: Path) -> Any:
    """What there is in the checkpoint of a query that keeps no state."""
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("line\n" * 40)
    lines = spark.readStream.schema("key string").csv(str(folder / "in"))
    run(lines.where("key = 'line'"), "append", folder / "checkpoint")
    return sorted(each.name for each in (folder / "checkpoint").iterdir())


def escaped(spark: Any, folder: Path) -> Any:
    """Of a checkpoint whose path has a space."""
    checkpoint = folder / "my checkpoint"
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text("line\n" * 40)
    spark.conf.set(layout.PARTITIONS, "2")
    counts = spark.readStream.schema("key string").csv(str(folder / "in")).groupBy("key").count()
    run(counts, "update", checkpoint)
    report = change(spark, str(checkpoint), 4, 16)
    return report["outcome"], report["reason"], sorted(each.name for each in folder.iterdir())


def failing(spark: Any, folder: Path) -> Any:
    """Files that are left by a change of which one task fails: at once, and later."""
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


def outlived(spark: Any, folder: Path) -> Any:
    """Tasks that are counted of a stage that Spark has begun again, as what a task of it was to
    read had gone: while one of each attempt runs, and in the end."""
    context, may_end = spark.sparkContext, folder / "may end"

    def read(index: int, lines: Any) -> Any:
        begun = folder / f"begun {index}"
        attempt = int(begun.exists())  # of the stage, which PySpark does not tell
        begun.touch()
        if index == attempt:
            (folder / str(attempt)).touch()
            while not may_end.exists():
                time.sleep(0.1)
        yield sum(1 for _ in lines)

    shuffled = context.parallelize([(key, key) for key in range(40)], 2).partitionBy(2)
    with grouped(spark, "outlived", "of a test") as running:
        shuffled.count()
        lost = list(Path(context.getConf().get("spark.local.dir")).rglob("shuffle_*"))
        assert lost
        for file in lost:
            file.unlink()
        both = context.union([context.parallelize([(0, 0)], 1), shuffled])
        job = InheritableThread(lambda: both.mapPartitionsWithIndex(read).count())
        job.start()
        wait_for("a task of each attempt", lambda: all((folder / n).exists() for n in "01"))
        wait_for("both to be counted", lambda: running() == 2)
        may_end.touch()
        job.join()
        wait_until_still(running)
        return running()


def unwanted(spark: Any, _folder: Path) -> Any:
    """Of a job that would take hours and is unwanted after a moment: what it ends with, how many
    tasks of it are left, and what a job after it counts."""
    begun = time.monotonic()
    with grouped(spark, "another", "of a test"):
        try:
            with cancelled_once(spark, "long", "of a test", lambda: time.monotonic() - begun > 1):
                spark.range(10**15).selectExpr("sum(hash(id))").collect()
        except Exception as error:
            ended = str(error)
        with grouped(spark, "long", "of a test") as running:
            wait_until_still(running)
            left = running()
        return "cancelled" in ended, left, spark.range(7).count()


def changed(spark: Any, folder: Path) -> Any:
    """Of a query with 2 partitions: how many keys all batches but the first have changed, and
    whether the same has changed in others, by their names."""
    spark.conf.set(CHANGELOGS, "true")
    seen = {}
    for name, partitions, last in (
        ("two", 2, "3,a,,\n40,a,,\n40,d,5,\n"),
        ("four", 4, "3,a,,\n40,a,,\n40,d,5,\n"),
        ("another_value", 4, "3,a,,\n40,a,,\n40,d,6,\n"),
        ("another_null", 4, "3,a,,\n40,a,,\n40,d,,5\n"),  # by Spark's own hash it is the same
        ("none_gone", 4, "3,a,,\n4,a,,\n4,d,5,\n"),
    ):
        place = folder / name
        (place / "in").mkdir(parents=True)
        spark.conf.set(layout.PARTITIONS, str(partitions))
        schema = "at long, key string, a long, b long"
        events = spark.readStream.schema(schema).csv(str(place / "in"))
        late = events.select(f.timestamp_seconds("at").alias("at"), "key", "a", "b")
        late = late.withWatermark("at", "5 seconds")
        both = (f.max("a"), f.max("b"))
        counts = late.groupBy(f.window("at", "10 seconds"), "key").agg(*both)
        for number, lines in enumerate(("0,a,,\n0,b,,\n3,c,,\n", last)):
            (place / "in" / f"{number}.csv").write_text(lines)
            run(counts, "update", place / "checkpoint")
        done = max(int(each.name) for each in (place / "checkpoint/commits").glob("[0-9]*"))
        batches = changes.Batches(str(place / "checkpoint"), 0, done)
        [seen[name]] = changes.changes(spark, [(0, "default")], [batches])
    spark.conf.unset(CHANGELOGS)
    [two] = seen["two"].values()
    return two.rows, {name: each == seen["two"] for name, each in seen.items()}


def recounted(spark: Any, folder: Path) -> Any:
    """Of changes that count no rows, without changelogs and with them: what their snapshots tell of
    the number, and how many Spark counts in the next batch. Then the setting of the program's
    session."""
    found, constructor = [], SparkSession.__init__
    spark.conf.set(layout.PARTITIONS, "4")
    for changelogs in ("false", "true"):
        spark.conf.set(CHANGELOGS, changelogs)
        (place := folder / changelogs / "in").mkdir(parents=True)
        (place / "0.csv").write_text("".join(f"key{i}\n" for i in range(40)))
        lines = spark.readStream.schema("key string").csv(str(place))
        counts, checkpoint = lines.groupBy("key").count(), place.with_name("checkpoint")
        run(counts, "update", checkpoint)
        # It would have frames of the program's RDDs made by another session.
        SparkSession.__init__ = None  # type: ignore[assignment,method-assign]
        report = change(spark, str(checkpoint), 8, 16)
        SparkSession.__init__ = constructor  # type: ignore[method-assign]
        told = {
            json.loads(zipfile.ZipFile(each).read("metadata").partition(b"\n")[2])["numKeys"]
            for each in checkpoint.glob("state/0/*/2.zip")
        }
        (place / "1.csv").write_text("".join(f"key{i}\n" for i in range(30, 50)))
        writer = counts.writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).format("noop").start()
        query.awaitTermination()
        total = [each.numRowsTotal for each in query.lastProgress.stateOperators]
        found.append((report["outcome"], sorted(told), total))
    spark.conf.unset(CHANGELOGS)
    return found, spark.conf.get(COUNTED, "true")


def main(place: Path) -> None:
    spark, found = session(place / "local"), {}
    for part in (
        keyless,
        limited,
        stateless,
        escaped,
        failing,
        outlived,
        unwanted,
        changed,
        recounted,
    ):
        (folder := place / part.__name__).mkdir()
        found[part.__name__] = part(spark, folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
