"""A Structured Streaming program as plain as can be: counts the rows of a rate source."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("the query is about to start")
(
    spark.readStream.format("rate")
    .option("rowsPerSecond", 5)
    .option("numPartitions", 2)
    .load()
    .writeStream.queryName("rate")
    .format("noop")
    .trigger(processingTime="1 second")
    .start()
    .awaitTermination()
)
