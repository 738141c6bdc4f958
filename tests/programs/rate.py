"""A Structured Streaming program as plain as can be: counts the rows of a rate source. It says so
every second, for whoever looks at the end of its log."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
query = (
    spark.readStream.format("rate")
    .option("rowsPerSecond", 5)
    .option("numPartitions", 2)
    .load()
    .writeStream.queryName("rate")
    .format("noop")
    .trigger(processingTime="1 second")
    .start()
)
while not query.awaitTermination(1):
    print("the query goes on", flush=True)
