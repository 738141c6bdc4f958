"""A program that runs and never starts a query."""

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
while True:
    time.sleep(1)
