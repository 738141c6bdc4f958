"""Counts the lines of files that come into a folder, and writes what it has counted as files.

    filing.py FOLDER [TABLE]

They are written to FOLDER/out; with a TABLE by that name, which has its files there.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

folder, table = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
spark = SparkSession.builder.getOrCreate()
(folder / "in").mkdir(parents=True, exist_ok=True)
lines = spark.readStream.schema("at timestamp, key string").csv(str(folder / "in"))
counts = (
    lines.withWatermark("at", "1 second").groupBy(f.window("at", "1 second"), "key").count()
).select("key", "count")
writer = (
    counts.writeStream.queryName("filed")
    .format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(processingTime="500 milliseconds")
)
if table:
    place = folder / "out"
    spark.sql(f"CREATE TABLE {table} (key string, count long) USING parquet LOCATION '{place}'")
    writer.toTable(table)
else:
    writer.start(str(folder / "out"))
spark.streams.awaitAnyTermination()
