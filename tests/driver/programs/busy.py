"""Queries that a stop finds in different places; watches them as many programs do, by polling.

Named on the command line: `busy` is never idle, `asleep` waits for its next trigger, `quiet` looks
for data that never comes, `stuck` never gets through its first batch.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

folder, names = Path(sys.argv[1]), sys.argv[2:]
spark = SparkSession.builder.getOrCreate()
(folder / "nothing").mkdir(exist_ok=True)


def work(batch: DataFrame, number: int) -> None:
    (folder / f"worked-{number}").touch()


def never(batch: DataFrame, number: int) -> None:
    (folder / "stuck").touch()
    while True:
        time.sleep(0.1)


endless = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
nothing = spark.readStream.text(str(folder / "nothing"))
made = {
    "busy": endless.writeStream.foreachBatch(work),
    "asleep": endless.writeStream.format("noop").trigger(processingTime="1 hour"),
    "quiet": nothing.writeStream.format("noop"),
    "stuck": endless.writeStream.foreachBatch(never),
}
queries = [
    made[name].queryName(name).option("checkpointLocation", str(folder / f"of-{name}")).start()
    for name in names
]
while any(query.isActive for query in queries):
    time.sleep(0.01)
spark.stop()
print("the program has ended by itself")
