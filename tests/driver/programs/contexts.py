"""A query; and, when it is told, another SparkContext with another query."""

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

folder = sys.argv[1]


def told(what: str) -> None:
    while not os.path.exists(f"{folder}/{what}"):
        time.sleep(0.05)


def begin(name: str) -> StreamingQuery:
    spark = SparkSession.builder.getOrCreate()
    lines = spark.readStream.format("rate").load().writeStream.format("noop")
    return lines.queryName(name).trigger(processingTime="1 second").start()


begin("first")
told("stop")
SparkSession.builder.getOrCreate().stop()
told("begin")
begin("second").awaitTermination()
