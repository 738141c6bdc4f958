"""Visits, each one looked at by a slow service that knows robots. Structured Streaming on Kinesis.

Reads a Kinesis stream, one visit a record ({"visitor": 17, "page": "/lamp/12"}), asks a service
about every visit, and writes JSON files. Plain PySpark: try it without a cluster with

    python -m dev.kinesis --port 4567 &
    python jobs/visits.py --stream visits --endpoint http://127.0.0.1:4567 --region us-east-1 \
        --output /tmp/visits --checkpoint /tmp/checkpoint

A batch has one task for each shard of the stream, so that many cores can work on it and no more:
nothing is gained by executors beyond that. What helps is more shards, or `repartition` before the
slow part, as in jobs/clicks.py.
"""

import argparse
import time
import zlib

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, udf
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

VISIT = StructType([StructField("visitor", IntegerType()), StructField("page", StringType())])


def main() -> None:
    parser = argparse.ArgumentParser(description="Tell robots from people as they come.")
    parser.add_argument("--stream", required=True, help="the Kinesis stream the visits are put to")
    parser.add_argument("--region", required=True)
    parser.add_argument("--endpoint", help="where Kinesis is, if not at AWS")
    parser.add_argument("--output", required=True, help="folder for the visits, told apart")
    parser.add_argument("--checkpoint", help="folder for the query's progress, if not set in Spark")
    parser.add_argument("--wait-ms", type=float, default=40, help="how slow the service is")
    options = parser.parse_args()

    spark = SparkSession.builder.appName("visits").getOrCreate()
    # Both are set for a stream that dagster_sparkscale starts, from its declaration.
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs", "5000")
    checkpoint = options.checkpoint or spark.conf.get("spark.sparkscale.checkpointLocation")

    wait_seconds = options.wait_ms / 1000

    @udf(returnType=BooleanType(), useArrow=False)
    def is_robot(visitor: int) -> bool:
        time.sleep(wait_seconds)  # the call to the service
        return zlib.crc32(str(visitor).encode()) % 10 == 0

    # No credentials: without any in its options the source takes those that boto3 finds, here and
    # on the executors. On AWS that is the role of the machine.
    kinesis = (
        spark.readStream.format("kinesis-direct")
        .option("streamName", options.stream)
        .option("region", options.region)
        .option("startingPosition", "trim_horizon")
    )
    if options.endpoint:
        kinesis = kinesis.option("endpointUrl", options.endpoint)
    visits = (
        kinesis.load()
        .select(
            from_json(col("data").cast("string"), VISIT).alias("visit"),
            col("approximateArrivalTimestamp").alias("at"),
        )
        .select("visit.*", "at")
        .dropna()
        .withColumn("robot", is_robot("visitor"))
    )

    # The ends of a batch are fixed before it is read, and the file sink keeps a list of what
    # belongs to which batch: every visit is in the output once, whatever crashes.
    query = (
        visits.writeStream.queryName("tell_robots")
        .format("json")
        .option("path", options.output)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
