"""Reads a source, works on each record, and writes what a batch has had into a file of its number,
so that one that is repeated is there once.

    reading.py SOURCE FOLDER [--limits NAME] [--by-key] [--option NAME VALUE]...

SOURCE is rate, files, kafka or kinesis-direct. How long a record takes is in the file `pace` of
FOLDER, in seconds. With --by-key the records are counted, key by key, in a state.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit, udf
from pyspark.sql.types import StringType

from dagster_sparkscale import stream_options

PIECES = 6
"""Tasks of a batch, whatever its source: so more executors are of use."""


@udf(returnType=StringType(), useArrow=False)
def worked_on(value: str, seconds: float) -> str:
    time.sleep(seconds)
    return value


def read(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    source = spark.readStream.format("csv" if given.source == "files" else given.source)
    source = source.options(**dict(given.option))
    if given.limits:
        source = source.options(**stream_options(given.limits))
    if given.source == "files":
        return source.schema("value string").load(str(given.folder / "in"))
    what = "data" if given.source == "kinesis-direct" else "value"
    return source.load().selectExpr(f"CAST({what} AS STRING) AS value")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limits")
    parser.add_argument("--by-key", action="store_true")
    parser.add_argument("--option", nargs=2, action="append", default=[])
    given = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    out: Path = given.folder / "out"
    out.mkdir(exist_ok=True)

    def pace() -> Column:
        return lit(float((given.folder / "pace").read_text()))

    def write(rows: object, number: int) -> None:
        draft = out / f".{number}"
        draft.write_text(json.dumps(rows))
        draft.replace(out / f"{number}.json")

    def work(batch: DataFrame, number: int) -> None:
        done = batch.repartition(PIECES).select(worked_on("value", pace()).alias("value"))
        write([row["value"] for row in done.collect()], number)

    def count(batch: DataFrame, number: int) -> None:
        done = batch.select(worked_on("value", pace()).alias("value"), "count")
        write({row["value"]: row["count"] for row in done.collect()}, number)

    records = read(spark, given)
    if given.by_key:
        query = records.groupBy("value").count().writeStream.outputMode("update")
        query = query.foreachBatch(count)
    else:
        query = records.writeStream.foreachBatch(work)
    interval = spark.conf.get("spark.sparkscale.batchIntervalMs")
    query.queryName("reading").trigger(processingTime=f"{interval} milliseconds").start()
    spark.streams.awaitAnyTermination()


main()
