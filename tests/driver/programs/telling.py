"""A query and a DStreams graph whose sources tell of themselves and heed live limits.

The query's source reports what is in the file `told`, and gives as many records for each batch as
its live limit allows, or one; none at all while the file `quiet` is there.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.streaming import StreamingContext

folder = sys.argv[1]


class Piece(InputPartition):
    def __init__(self, records: int) -> None:
        self.records = records


class Reader(DataSourceStreamReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        if os.path.exists(f"{self.folder}/quiet"):
            return start
        with open(os.environ["SPARKSCALE_RATES_FILE"]) as file:
            records = json.load(file).get("clicks", {}).get("maxRecordsPerTrigger", 1)
        return {"at": start["at"] + records}

    def reportLatestOffset(self) -> dict[str, Any]:
        with open(f"{self.folder}/told") as file:
            return json.load(file)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [Piece(end["at"] - start["at"])]

    def read(self, partition: Piece) -> Iterator[tuple[int]]:
        yield from ((number,) for number in range(partition.records))


class Telling(DataSource):
    @classmethod
    def name(cls) -> str:
        return "telling"

    def schema(self) -> str:
        return "number int"

    def streamReader(self, schema: Any) -> Reader:
        return Reader(self.options["folder"])


spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
spark.dataSource.register(Telling)


def tell(stream: str, /, **told: Any) -> None:
    context._jvm.java.lang.System.setProperty(f"spark.sparkscale.source.{stream}", json.dumps(told))


limits = context._jvm.java.lang.System.getProperty("spark.sparkscale.rates.file")
print(f"the JVM knows {limits}")
streaming = StreamingContext(context, 1)
left = [2, 1, 0]


def work(batch: Any) -> None:
    # No job on the batch: it would start Python workers beside the query's, and Spark gives a
    # worker ten seconds to start, however busy the machine is.
    seconds = left.pop(0) if left else 0
    tell("orders", v=1, stream="orders", behind_ms=seconds * 1000, shards=2, lost=1)
    tell("returns", v=1, stream="returns", behind_ms=None, shards=3, lost=0)


streaming.queueStream([context.parallelize([1])] * 5).foreachRDD(work)
streaming.start()
while True:
    query = (
        spark.readStream.format("telling")
        .option("folder", folder)
        .load()
        .writeStream.queryName("clicks")
        .foreachBatch(lambda batch, number: batch.collect() and None)
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        query.awaitTermination()
        break
    except StreamingQueryException as error:
        if "Python worker failed to connect back" not in str(error):
            raise
        # The same ten seconds, which no setting changes: a busy machine, and nothing to be tested.
streaming.awaitTermination()
print("the program has ended by itself")
