"""Queries that a stop finds in different places. When one of them has ended, so has the program,
which is what many wait for.

Named on the command line: `busy` is never idle, `asleep` waits for its next trigger, `quiet` looks
for data that never comes, `slow` waits in each batch for the file `go`.
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


def wait(batch: DataFrame, number: int) -> None:
    (folder / "waits").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)


endless = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
nothing = spark.readStream.text(str(folder / "nothing"))
made = {
    "busy": endless.writeStream.foreachBatch(work),
    "asleep": endless.writeStream.format("noop").trigger(processingTime="1 hour"),
    "quiet": nothing.writeStream.format("noop"),
    "slow": endless.writeStream.foreachBatch(wait),
}
queries = [
    made[name].queryName(name).option("checkpointLocation", str(folder / f"of-{name}")).start()
    for name in names
]
while all(query.isActive for query in queries):
    time.sleep(0.01)
(folder / "ending").touch()
spark.stop()
print("the program has ended by itself")
