"""A Structured Streaming program whose batches have as many rows as the options of `clicks` say."""

from pyspark.sql import SparkSession

from dagster_sparkscale import stream_options

UNWANTED = 13

spark = SparkSession.builder.getOrCreate()
rows = int(stream_options("clicks")["maxOffsetsPerTrigger"])
if rows == UNWANTED:
    raise RuntimeError(f"{rows} rows are not wanted")
(
    spark.readStream.format("rate-micro-batch")
    .option("rowsPerBatch", rows)
    .option("numPartitions", 2)
    .load()
    .writeStream.queryName("optioned")
    .format("noop")
    .trigger(processingTime="1 second")
    .start()
    .awaitTermination()
)
