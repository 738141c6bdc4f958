"""Queries for lineage: from files to files, from Kinesis (which is not there), by foreachBatch.

Runs until it is stopped, or ends as its second argument says: `returns` or `raises`.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession

folder, ending = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def ignore(batch: DataFrame, number: int) -> None:
    batch.count()


lines = spark.readStream.format("text").load(f"{folder}/in/*.txt")
copied = (
    lines.writeStream.format("json")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(processingTime="1 second")
    .start(f"{folder}/out", queryName="copied")
)
lines.writeStream.queryName("ignored").foreachBatch(ignore).start()
kinesis = spark.readStream.format("kinesis-direct").options(
    streamName="clicks", region="eu-central-1", endpointUrl="http://127.0.0.1:9"
)
try:
    kinesis.load().writeStream.format("noop").queryName("away").start().awaitTermination()
except Exception as error:
    print("no Kinesis:", error)
while copied.lastProgress is None:
    time.sleep(0.1)
if ending == "raises":
    raise ValueError("there is no more to do")
if ending == "runs":
    copied.awaitTermination()
