"""Writes files, and a table: each of the lines that come into a folder once.

    filing.py FOLDER

`files` and `table` in FOLDER are what is written, `in` what is read.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.warehouse.dir", sys.argv[1]).getOrCreate()
folder = Path(sys.argv[1])
(folder / "in").mkdir(parents=True, exist_ok=True)
lines = spark.readStream.schema("key string").csv(str(folder / "in"))


def writer(name):
    return (
        lines.dropDuplicates(["key"])
        .writeStream.queryName(name)
        .option("checkpointLocation", str(folder / "checkpoints" / name))
        .trigger(processingTime="1 second")
    )


# Its catalog is in memory: each driver has to declare the table anew.
spark.sql(f"create table if not exists filed (key string) using json location '{folder / 'table'}'")
writer("files").format("json").start(str(folder / "files"))
writer("table").format("json").toTable("filed")
spark.streams.awaitAnyTermination()
