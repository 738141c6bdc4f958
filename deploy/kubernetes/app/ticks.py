"""A stream to begin with: counts, in its state, how many rows a rate source has made in each of
eight groups. Put a program of yours in its place."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
# Both are set from the declaration.
every = spark.conf.get("spark.sparkscale.batchIntervalMs")
checkpoint = spark.conf.get("spark.sparkscale.checkpointLocation")
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = (
    rows.selectExpr("value % 8 AS of")
    .groupBy("of")
    .count()
    .writeStream.queryName("count_ticks")
    .format("noop")
    .outputMode("update")
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime=f"{every} milliseconds")
    .start()
)
query.awaitTermination()
