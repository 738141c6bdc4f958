"""A query with a source in Python that has no end, and heeds its live limits as the docs say.

How many milliseconds a record takes is in the file `cost`, and how many a batch takes beside that
in `overhead`, if there is one.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from dagster_sparkscale.driver.live_limits import live_limits

folder = sys.argv[1]
EVERYTHING = 1_000_000


class Piece(InputPartition):
    def __init__(self, records: int) -> None:
        self.records = records


class Reader(DataSourceStreamReader):
    def __init__(self) -> None:
        self.limit: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        self.limit = live_limits("numbers").get("maxRecordsPerTrigger")
        return {"at": start["at"] + (self.limit or EVERYTHING)}

    def reportLatestOffset(self) -> dict[str, Any]:
        return {"v": 1, "stream": "numbers", "shards": 1, "limit": self.limit}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [Piece(end["at"] - start["at"])]

    def read(self, partition: Piece) -> Iterator[tuple[int]]:
        yield from ((number,) for number in range(partition.records))


class Endless(DataSource):
    @classmethod
    def name(cls) -> str:
        return "endless"

    def schema(self) -> str:
        return "number int"

    def streamReader(self, schema: Any) -> Reader:
        return Reader()


def overhead() -> float:
    try:
        with open(f"{folder}/overhead") as file:
            return float(file.read())
    except FileNotFoundError:
        return 0.0


def work(batch: Any, number: int) -> None:
    records = batch.count()
    with open(f"{folder}/cost") as file:
        time.sleep((overhead() + records * float(file.read())) / 1000)


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Endless)
while True:
    query = (
        spark.readStream.format("endless")
        .load()
        .writeStream.queryName("counted")
        .foreachBatch(work)
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        query.awaitTermination()
        break
    except StreamingQueryException as error:
        if "Python worker failed to connect back" not in str(error):
            raise
        # Spark gives a worker ten seconds to start: a busy machine, and nothing to be tested.
