"""A Structured Streaming program that does next to nothing, for ever."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs", "1000")
(
    spark.readStream.format("rate")
    .option("rowsPerSecond", 10)
    .load()
    .writeStream.queryName("rate")
    .format("noop")
    .trigger(processingTime=f"{interval_ms} milliseconds")
    .start()
    .awaitTermination()
)
