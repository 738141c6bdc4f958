"""Clicks, each one rated by a slow service, and summed up by page. Structured Streaming with state.

Reads JSON files as they arrive, one click a line ({"page": "/lamp/12", "at": 1700000000.0}), asks
a service for a rating of every click, and writes JSON files again: for each page and minute how
many clicks it had, and how they were rated on average. Plain PySpark: try it without a cluster with

    python jobs/clicks.py --input /tmp/clicks --output /tmp/rated --checkpoint /tmp/checkpoint

What it does all day is wait for the service. More executors wait for more answers at a time, so
the number of executors is what decides how many clicks it can take. The sums of the minutes that
are not over are the query's state, which Spark keeps in the checkpoint.
"""

import argparse
import time
import zlib

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, count, timestamp_seconds, udf, window
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType

CLICK = StructType([StructField("page", StringType()), StructField("at", DoubleType())])

# How many pieces a batch is cut into. The executors share the pieces out among themselves: this is
# the most cores that can work on one batch.
PIECES = 6


def main() -> None:
    parser = argparse.ArgumentParser(description="Rate clicks as they arrive.")
    parser.add_argument("--input", required=True, help="folder the clicks arrive in")
    parser.add_argument("--output", required=True, help="folder for the rated pages")
    parser.add_argument("--checkpoint", help="folder for the query's progress, if not set in Spark")
    parser.add_argument("--wait-ms", type=float, default=40, help="how slow the service is")
    options = parser.parse_args()

    spark = SparkSession.builder.appName("clicks").getOrCreate()
    # Both are set for a stream that dagster_sparkscale starts, from its declaration.
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs", "5000")
    checkpoint = options.checkpoint or spark.conf.get("spark.sparkscale.checkpointLocation")

    wait_seconds = options.wait_ms / 1000

    # useArrow=False: the function takes one click at a time, and needs neither pandas nor pyarrow.
    @udf(returnType=IntegerType(), useArrow=False)
    def rate(page: str) -> int:
        time.sleep(wait_seconds)  # the call to the service
        return zlib.crc32(page.encode()) % 100

    clicks = spark.readStream.schema(CLICK).json(options.input)
    rated = clicks.dropna().repartition(PIECES).withColumn("rating", rate("page"))
    # A minute is over, and written, once clicks are there that are half a minute younger.
    pages = (
        rated.withColumn("time", timestamp_seconds("at"))
        .withWatermark("time", "30 seconds")
        .groupBy(window("time", "1 minute"), "page")
        .agg(count("*").alias("clicks"), avg("rating").alias("rating"))
        .select("window.start", "page", "clicks", "rating")
    )

    # The file sink keeps a list of what belongs to which batch: a batch that is repeated after a
    # crash is not seen twice by readers.
    query = (
        pages.writeStream.queryName("rate_clicks")
        .format("json")
        .option("path", options.output)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
