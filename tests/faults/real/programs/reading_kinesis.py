"""Reads a Kinesis stream, and writes what each batch has into a file of its number, so that one
that is repeated is there once.

Arguments: the service's URL, the stream's name, a folder.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dagster_sparkscale.sources import kinesis

url, name, given = sys.argv[1:]
folder = Path(given) / "read"
folder.mkdir(exist_ok=True)
spark = SparkSession.builder.getOrCreate()
kinesis.register(spark)


def keep(batch: DataFrame, number: int) -> None:
    rows = [row.data for row in batch.selectExpr("CAST(data AS STRING) AS data").collect()]
    draft = folder / f".{number}"
    draft.write_text(json.dumps(rows))
    draft.replace(folder / f"{number}.json")


options = {
    "streamName": name,
    "endpointUrl": url,
    "region": "us-east-1",
    "awsAccessKeyId": "emulator",
    "awsSecretAccessKey": "emulator",
    "startingPosition": "trim_horizon",
}
(
    spark.readStream.format("kinesis-direct")
    .options(**options)
    .load()
    .writeStream.queryName("reading")
    .trigger(processingTime="1 second")
    .foreachBatch(keep)
    .start()
    .awaitTermination()
)
