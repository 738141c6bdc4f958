"""A query that more executors would not make faster, for the cause that is named on the command
line: `driver`, `skew`, `executor`, `partitions` or `gc`.

Its tasks sleep in the JVM, so that a busy machine does not matter.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession

folder, cause = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def slept(frame: DataFrame, ms: str) -> None:
    """Compute `frame`, with a sleep of so many milliseconds for each row."""
    sleep = f"java_method('java.lang.Thread', 'sleep', CAST({ms} AS BIGINT))"
    frame.selectExpr(sleep).write.format("noop").mode("overwrite").save()


def work(batch: DataFrame, number: int) -> None:
    rows = batch.sparkSession.range(0, 400, 1, 8)
    if cause == "driver":
        slept(rows.limit(2), "1")
        time.sleep(2)  # as a sink does that writes from the driver
    elif cause == "skew":
        # Nine of ten rows have one key.
        keyed = rows.selectExpr("IF(id % 10 = 0, id, 7) AS key").repartition(8, "key")
        slept(keyed, "6")
    elif cause == "executor":
        # Another one than those whose tasks are started first: it gets any partition.
        which = "java_method('java.lang.System', 'getProperty', 'tested.executor')"
        slept(spark.range(0, 16, 1, 16), f"IF({which} = '1', 600, 60)")
    elif cause == "partitions":
        slept(rows.coalesce(2), "8")
    elif cause == "gc":
        held = rows.sparkSession.range(0, 300_000, 1, 4)
        lists = held.selectExpr("id % 20 AS key", "CAST(uuid() AS STRING) AS text")
        counted = lists.groupBy("key").agg({"text": "collect_list"})
        counted.write.format("noop").mode("overwrite").save()


endless = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = endless.writeStream.foreachBatch(work).queryName(cause)
writer.option("checkpointLocation", f"{folder}/of-{cause}").start().awaitTermination()
