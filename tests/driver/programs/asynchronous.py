"""One query whose progress is tracked asynchronously: both logs of its checkpoint have gaps.

Arguments: a folder, and the milliseconds between two entries of a log.
"""

import sys

from pyspark.sql import SparkSession

folder, every = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
query = (
    spark.readStream.format("rate")
    .option("rowsPerSecond", 100)
    .load()
    .writeStream.queryName("late")
    .format("noop")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .option("asyncProgressTrackingEnabled", "true")
    .option("asyncProgressTrackingCheckpointIntervalMs", every)
    # Spark means it for Kafka's sink alone.
    .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
    .trigger(processingTime="200 milliseconds")
    .start()
)
query.awaitTermination()
