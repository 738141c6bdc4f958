"""Has an executor's Python say which one it is, again and again."""

import sys
import time

from pyspark.sql import SparkSession

context = SparkSession.builder.getOrCreate().sparkContext
while True:
    print("SAID", context.parallelize([1], 1).map(lambda _: sys.executable).collect(), flush=True)
    time.sleep(1)
