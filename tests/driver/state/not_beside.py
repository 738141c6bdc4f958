"""Queries that are asked to be changed beside the stream, and can't be: what is done, in one Spark.

    python -m tests.driver.state.not_beside FOLDER

Prints a line of JSON a query: its name, what the change came to, and what it has counted after it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import functions as f

from dagster_sparkscale.driver.state.beside.storage import ThisHost
from tests.driver.state.operators import SCHEMA, chunk
from tests.driver.state.twins import line, session
from tests.driver.state.twins_beside import ASKED, at_steps
from tests.driver.state.twins_in_place import Driver

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
RETAINED = "spark.sql.streaming.minBatchesToRetain"


class Query:
    """One that counts the rows of chunks by key."""

    def __init__(self, spark: Any, folder: Path, name: str, made_of: Callable[[Any], Any]) -> None:
        self._folder, self.fed, self.counted = folder / name, 0, dict[int, int]()
        (self._folder / "in").mkdir(parents=True)
        self.handle = (
            made_of(spark.readStream.schema(SCHEMA))
            .writeStream.queryName(name)
            .outputMode("update")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(processingTime="300 milliseconds")
            .foreachBatch(self._count)
            .start(str(self._folder / "out"))
        )

    def _count(self, batch: Any, _number: int) -> None:
        self.counted.update({row["key"]: row["n"] for row in batch.collect()})

    def feed(self) -> None:
        draft = self._folder / "draft"
        draft.write_text("".join(f"{line(*each)}\n" for each in chunk(self.fed)))
        draft.rename(self._folder / "in" / f"{self.fed}.csv")
        self.fed += 1
        self.handle.processAllAvailable()


def files(folder: Path, **options: str) -> Callable[[Any], Any]:
    return lambda reader: counts(reader.options(**options).csv(str(folder)))


def counts(events: Any) -> Any:
    return events.groupBy("key").agg(f.count("*").alias("n"))


def random(folder: Path) -> Callable[[Any], Any]:
    """Counts with a number by each that is another each time."""
    return lambda reader: (
        reader.csv(str(folder))
        .withColumn("drawn", f.rand())
        .groupBy("key")
        .agg(f.count("*").alias("n"), f.max("drawn").alias("largest"))
    )


def main(place: str) -> None:
    folder, spark = Path(place), session({})
    driver = Driver(spark, 16)
    fed: list[Query] = []
    at_steps(lambda: fed[-1].feed())

    def tell(name: str, made_of: Callable[[Any], Any]) -> None:
        query = Query(spark, folder, name, made_of)
        fed.append(query)
        query.feed()
        change = driver.change(name, 16, 0, ASKED)
        query.feed()
        wanted: dict[int, int] = {}
        for number in range(query.fed):
            for _, key, _ in chunk(number):
                wanted[key] = wanted.get(key, 0) + 1
        right = query.counted == wanted
        query.handle.stop()
        told = {"query": name, "change": change, "fed": query.fed, "right": right}
        print(json.dumps(told), flush=True)

    tell("random", random(folder / "random" / "in"))
    cleaned = files(folder / "cleaned" / "in", cleanSource="delete")
    tell("cleaned", cleaned)
    free = iter([10**12, 10**12])  # bytes; nothing is left once the state is rewritten
    with patch.object(ThisHost, "free", lambda _storage: next(free, 0)):
        tell("filling", files(folder / "filling" / "in"))
    spark.conf.set(FORMAT, "2")
    tell("format_2", files(folder / "format_2" / "in"))
    spark.conf.set(FORMAT, "1")
    spark.conf.set(RETAINED, "5")
    tell("few_retained", files(folder / "few_retained" / "in"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
