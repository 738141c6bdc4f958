"""Payments, each one checked by a slow service. Structured Streaming on Kafka.

Reads a Kafka topic, one payment a record ({"order": 17, "cents": 1999}), asks a service about every
payment, and writes JSON files. Plain PySpark: try it without a cluster with

    python -m dev.kafka &
    python jobs/payments.py --servers 127.0.0.1:PORT --topic payments --output /tmp/payments \
        --checkpoint /tmp/checkpoint

and Spark's connector for Kafka (docs/kafka.md). A batch has one task for each partition of the
topic, so that many cores can work on it and no more. What helps is more partitions, which a query
that runs finds by itself, or `repartition` before the slow part, as in jobs/clicks.py.
"""

import argparse
import time
import zlib

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, udf
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from dagster_sparkscale import stream_options

PAYMENT = StructType([StructField("order", IntegerType()), StructField("cents", IntegerType())])


def main() -> None:
    parser = argparse.ArgumentParser(description="Check payments as they come.")
    parser.add_argument("--servers", required=True, help="addresses of Kafka, with commas between")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", required=True, help="folder for the checked payments")
    parser.add_argument("--checkpoint", help="folder for the query's progress, if not set in Spark")
    parser.add_argument("--wait-ms", type=float, default=40, help="how slow the service is")
    options = parser.parse_args()

    spark = SparkSession.builder.appName("payments").getOrCreate()
    # Both are set for a stream that dagster_sparkscale starts, from its declaration.
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs", "5000")
    checkpoint = options.checkpoint or spark.conf.get("spark.sparkscale.checkpointLocation")

    wait_seconds = options.wait_ms / 1000

    @udf(returnType=BooleanType(), useArrow=False)
    def is_fraud(order: int) -> bool:
        time.sleep(wait_seconds)  # the call to the service
        return zlib.crc32(str(order).encode()) % 100 == 0

    payments = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        # The limits that are declared for "payments", or were tuned since; none if run by hand.
        .options(**stream_options("payments"))
        .load()
        .select(from_json(col("value").cast("string"), PAYMENT).alias("payment"))
        .select("payment.*")
        .dropna()
        .withColumn("fraud", is_fraud("order"))
    )

    # The ends of a batch are fixed before it is read, and the file sink keeps a list of what
    # belongs to which batch: every payment is in the output once, whatever crashes.
    query = (
        payments.writeStream.queryName("check_payments")
        .format("json")
        .option("path", options.output)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
