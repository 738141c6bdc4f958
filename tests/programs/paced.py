"""A Structured Streaming program whose batches take as long as a file says, in seconds."""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def main(pace: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs")

    def work(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        time.sleep(float(pace.read_text()))

    (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 5)
        .option("numPartitions", 2)
        .load()
        .writeStream.queryName("paced")
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .foreachBatch(work)
        .start()
        .awaitTermination()
    )


main(Path(sys.argv[1]))
