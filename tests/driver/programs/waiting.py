"""Counts the lines of files by key in two queries, waits for them in all ways that PySpark has, and
notes what it is told of them.

    waiting.py FOLDER

FOLDER has `counts` and `others`, as `tests/programs/counting.py` has its folders. Lines of JSON
come into `FOLDER/noted`. What is in a file `FOLDER/do` is done once: the name of a function below.
"""

import json
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener

spark = SparkSession.builder.getOrCreate()
folder = Path(sys.argv[1])
noting = threading.Lock()


def note(what: str, **more: object) -> None:
    with noting, (folder / "noted").open("a") as file:
        file.write(json.dumps({"what": what, **more}) + "\n")


class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        note("started", query=event.name)

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        note("terminated", id=str(event.id))


def written(name: str):
    place = folder / name

    def write(counted: DataFrame, batch: int) -> None:
        rows = {row["key"]: row["count"] for row in counted.collect()}
        file = place / "out" / f"{batch}.json"
        if file.exists():
            note("again", query=name, batch=batch)
        draft = place / f"draft-{batch}"
        draft.write_text(json.dumps(rows))
        draft.rename(file)

    lines = spark.readStream.schema("key string").csv(str(place / "in"))
    return (
        lines.groupBy("key")
        .count()
        .writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(processingTime="1 second")
        .foreachBatch(write)
    )


spark.streams.addListener(Listener())
writers = {name: written(name) for name in ("counts", "others")}
spark.sparkContext.setLocalProperty("spark.scheduler.pool", "of the program")
queries = {name: writer.start() for name, writer in writers.items()}
counts = queries["counts"]
id = counts.id


def awaited(name: str) -> None:
    queries[name].awaitTermination()
    note("awaited", query=name)


def awaited_any() -> None:
    spark.streams.awaitAnyTermination()
    note("awaited any")


def watched() -> None:
    """Note whatever shows that a query does not run."""
    stopped: set[str] = set()
    while True:
        for name, query in queries.items():
            if name in stopped:
                continue
            facts = {
                "active": query.isActive,
                "waits": query.awaitTermination(timeout=0.05) is False,
                "listed": any(each.id == query.id for each in spark.streams.active),
                "found": spark.streams.get(query.id) is not None,
                "well": query.exception() is None,
            }
            if name in stopping:
                stopped.add(name)
            elif not all(facts.values()):
                note("ended", query=name, **facts)
                stopped.add(name)
        time.sleep(0.02)


stopping: set[str] = set()


def stop_counts() -> None:
    stopping.add("counts")
    counts.stop()
    note("stopped", active=counts.isActive)


def stop_others() -> None:
    stopping.add("others")
    queries["others"].stop()


def set_conf() -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")


def change_writer() -> None:
    writers["counts"].option("path", "elsewhere")


def tell() -> None:
    started_by = spark.sparkContext._jsc.sc()
    note(
        "told",
        same=counts.id == id,
        run=counts.runId,
        batch=counts.lastProgress.batchId,
        pool=str(started_by.getLocalProperty("spark.scheduler.pool")),
    )


for target, *arguments in ((awaited, "counts"), (awaited, "others"), (awaited_any,), (watched,)):
    threading.Thread(target=target, args=arguments, daemon=True).start()
while not (folder / "end").exists():
    if (order := folder / "do").exists():
        name = order.read_text()
        order.unlink()
        globals()[name]()
        note("did", name=name)
    time.sleep(0.05)
