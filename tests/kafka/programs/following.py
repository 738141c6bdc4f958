"""Reads Kafka, and writes each batch into a file of its number, so that one that is repeated is
there once. A batch takes as long as a file says, in seconds."""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--by", default="subscribe")
    parser.add_argument("--topics", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--option", nargs=2, action="append", default=[])
    parser.add_argument("--writer", nargs=2, action="append", default=[])
    given = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs")
    read = given.folder / "read"
    read.mkdir(exist_ok=True)

    def work(batch: DataFrame, number: int) -> None:
        rows = batch.selectExpr("topic", "partition", "offset", "CAST(value AS STRING)").collect()
        draft = read / f".{number}"
        draft.write_text(json.dumps([list(row) for row in rows]))
        draft.replace(read / f"{number}.json")
        time.sleep(float((given.folder / "pace").read_text()))

    (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option(given.by, given.topics)
        .option("startingOffsets", "earliest")
        .options(**dict(given.option))
        .load()
        .writeStream.queryName("following")
        .options(**dict(given.writer))
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .foreachBatch(work)
        .start()
        .awaitTermination()
    )


main()
