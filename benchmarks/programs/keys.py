"""Keeps a row of state for each key: first for as many as it is told, then for those of files.

    keys.py FOLDER COUNT SECONDS

A batch begins every SECONDS. `FOLDER/in` has the files, a number a line. When a batch is done, a
line with the time goes into `FOLDER/done`.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
folder, count = Path(sys.argv[1]), int(sys.argv[2])
first = folder / "in"
if not first.exists():
    first.mkdir(parents=True)
    # Whole at once: a file that is being written must not be read.
    spark.range(count).write.csv(str(folder / "first"))
    for number, part in enumerate((folder / "first").glob("part-*")):
        part.rename(first / f"first-{number}.csv")


def done(_batch: DataFrame, number: int) -> None:
    _batch.write.format("noop").mode("overwrite").save()
    with (folder / "done").open("a") as file:
        file.write(f"{number} {time.time()}\n")


(
    spark.readStream.schema("key long")
    .csv(str(first))
    .groupBy("key")
    .count()
    .writeStream.queryName("keys")
    .outputMode("update")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(processingTime=f"{sys.argv[3]} seconds")
    .foreachBatch(done)
    .start()
    .awaitTermination()
)
