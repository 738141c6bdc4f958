"""Runs queries on streams one after the other, as the JSON on its standard input says.

Each is an object with "name", "options", and "trigger" as for DataStreamWriter. Argument: a folder.
For each query there is a file NAME.json with its rows, its plan and its error, and all its progress
so far, a line each, in NAME.progress. Everything Spark has to say is in the folder too.
"""

import contextlib
import io
import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from starting import started

from dagster_sparkscale.sources import kinesis

folder = Path(sys.argv[1])
jobs = json.load(sys.stdin)
(folder / "events").mkdir()


class Listener(StreamingQueryListener):
    def onQueryProgress(self, event) -> None:
        with open(folder / f"{event.progress.name}.progress", "a") as file:
            file.write(json.dumps(json.loads(event.progress.json)) + "\n")

    def onQueryStarted(self, event) -> None:
        pass

    def onQueryIdle(self, event) -> None:
        pass

    def onQueryTerminated(self, event) -> None:
        pass


builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for option, value in {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": (folder / "events").as_uri(),
    "spark.sql.shuffle.partitions": "2",
}.items():
    builder = builder.config(option, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("INFO")
kinesis.register(session)
session.streams.addListener(Listener())
for job in jobs:
    name, plan, error = job["name"], io.StringIO(), None
    rows: list[str] = []

    def take(frame: DataFrame, number: int, rows: list[str] = rows) -> None:
        rows += [bytes(each.data).decode() for each in frame.select("data").collect()]

    frame = session.readStream.format("kinesis-direct").options(**job["options"]).load()
    query = started(
        frame.writeStream.queryName(name)
        .foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoints" / name))
        .trigger(**job["trigger"])
    )
    with contextlib.suppress(Exception):
        query.awaitTermination()
    error = str(query.exception()) if query.exception() else None
    with contextlib.redirect_stdout(plan):
        frame.explain(extended=True)
        query.explain(extended=True)
    said = {"rows": rows, "error": error, "plan": plan.getvalue()}
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(said))
    draft.rename(folder / f"{name}.json")
time.sleep(0.5)  # progress is told by another thread
session.stop()
