"""Counts the records of topics, key by key, for good.

    counting.py SERVERS FOLDER QUERY=TOPIC[=FAIL_ON_DATA_LOSS]...

Each query has a folder of its name in FOLDER, with `out` and `checkpoint` in it. What a batch has
counted is a file of its number: one that is run again writes the same.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
servers, folder, queries = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]


def start(place: Path, topic: str, fails: str) -> None:
    def write(counted: DataFrame, batch: int) -> None:
        rows = {row["key"]: row["count"] for row in counted.collect()}
        draft = place / f"draft-{batch}"
        draft.write_text(json.dumps(rows))
        draft.rename(place / "out" / f"{batch}.json")

    (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", fails)
        .load()
        .selectExpr("CAST(value AS STRING) AS key")
        .groupBy("key")
        .count()
        .writeStream.queryName(place.name)
        .outputMode("update")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(processingTime="1 second")
        .foreachBatch(write)
        .start()
    )


for each in queries:
    name, topic, *fails = each.split("=")
    start(folder / name, topic, *(fails or ["true"]))
spark.streams.awaitAnyTermination()
