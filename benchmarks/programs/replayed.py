"""A query whose source replays a load, and whose records take time: `FILE BEGAN PARTITIONS COST`.

FILE is JSON: {"step": seconds, "arrived": [records that have come when each step begins, and at the
end]}. The load begins at the moment that is in the file BEGAN, seconds since the epoch; until that
is there, records come as fast as in its first step. A batch has PARTITIONS tasks, which sleep COST
milliseconds for each record: what it takes depends on its records and its executors, and little on
the machine. For that, executors run no Python either; records are made in the driver.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

Offset = dict[str, int]


class Replayed(DataSource):  # type: ignore[misc]
    """The source as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        return "replayed"

    def schema(self) -> str:
        return "number long"

    def simpleStreamReader(self, schema: Any) -> "Reader":
        return Reader(dict(self.options))


class Reader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: dict[str, str]) -> None:
        self._file, self._began = Path(options["load"]), Path(options["began"])
        self._load: dict[str, Any] = {}
        self._started = time.time()

    def initialOffset(self) -> Offset:
        return {"records": 0}

    def read(self, start: Offset) -> tuple[Iterator[tuple[int]], Offset]:
        end = {"records": max(start["records"], self._come(time.time()))}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["records"], end["records"])])

    def _come(self, now: float) -> int:
        """How many records have come in all."""
        self._load = self._load or json.loads(self._file.read_text())
        step, arrived = self._load["step"], self._load["arrived"]
        began = float(self._began.read_text()) if self._began.exists() else now
        before = (began - self._started) * (arrived[1] - arrived[0]) / step
        steps, last = (now - began) / step, len(arrived) - 1
        whole = min(int(steps), last)
        rest = (steps - whole) * (arrived[whole + 1] - arrived[whole]) if whole < last else 0.0
        return int(before + arrived[whole] + rest)


def main(load: str, began: str, partitions: str, cost: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    interval_ms = spark.conf.get("spark.sparkscale.batchIntervalMs")
    spark.dataSource.register(Replayed)
    (
        spark.readStream.format("replayed")
        .options(load=load, began=began)
        .load()
        .repartition(int(partitions))
        .selectExpr(f"java_method('java.lang.Thread', 'sleep', {int(cost)}L)")
        .writeStream.queryName("replayed")
        .format("noop")
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
