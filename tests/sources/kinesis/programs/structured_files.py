"""Writes what a stream has to JSON files, by Spark's file sink, until it is killed.

Arguments: the master, the emulator's URL, the stream's name, where to start, a folder, and "on", or
"end" to end with what there is. While the folder has a file "hold", tasks that have rows wait, each
after leaving its process id in the name of an empty file "held-...".
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from starting import started

from dagster_sparkscale.sources import kinesis

master, url, name, start, given, how = sys.argv[1:]
folder = Path(given)


def held(batches: Iterable[pa.RecordBatch], where: str = given) -> Iterator[pa.RecordBatch]:
    import os

    for batch in batches:
        if batch.num_rows and os.path.exists(f"{where}/hold"):
            open(f"{where}/held-{os.getpid()}", "w").close()
            while os.path.exists(f"{where}/hold"):
                time.sleep(0.02)
        yield batch


builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
for option, value in {
    "spark.driver.host": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # Spark's own choice, which tests/short_lives.py replaces elsewhere: what is written down of a
    # batch, and when, is what the tests of this program are about.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileContextBasedCheckpointFileManager",
}.items():
    builder = builder.config(option, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("ERROR")
kinesis.register(session)
(folder / "app").write_text(session.sparkContext.applicationId)
options = {
    "streamName": name,
    "endpointUrl": url,
    "region": "us-east-1",
    "awsAccessKeyId": "emulator",
    "awsSecretAccessKey": "emulator",
    "startingPosition": start,
    "respectServiceLimits": "false",
    "readTimeout": os.environ["READ_TIMEOUT"],
}
if how == "on":
    options["maxRecordsPerTrigger"] = "150"  # many batches, each with a bad moment of its own
rows = session.readStream.format("kinesis-direct").options(**options).load()
lines = rows.selectExpr("cast(data AS string) AS data", "shardId")
query = started(
    lines.mapInArrow(held, lines.schema)
    .writeStream.format("json")
    .option("path", str(folder / "out"))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(**({"availableNow": True} if how == "end" else {"processingTime": "1 second"}))
)
query.awaitTermination()
session.stop()
