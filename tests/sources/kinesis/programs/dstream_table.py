"""Writes the rows of a direct DStream into a database, together with the position of each batch.

Arguments: the emulator's URL, the stream's name, the database, "with" to keep a batch's position
in the transaction of its rows or "before" for one before that, and where it hangs: "in" the second
batch with rows, in the middle of its rows, or "after" its transaction. Runs until it is killed.
"""

import json
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any

from pyspark import RDD, SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from dagster_sparkscale.sources.kinesis import kinesis_direct_stream


class Table:
    """Rows, and the position up to which they are there; with `before`, from which on some may
    be missing."""

    def __init__(self, path: str, when: str = "with", hang: str = "") -> None:
        self.path, self._when, self._hang = path, when, hang
        self._batches = 0
        with closing(self._open()) as database:
            database.execute("CREATE TABLE IF NOT EXISTS rows (data TEXT)")
            database.execute("CREATE TABLE IF NOT EXISTS position (json TEXT)")

    def position(self) -> dict[str, Any] | None:
        with closing(self._open()) as database:
            found = database.execute("SELECT json FROM position").fetchone()
        return json.loads(found[0]) if found else None

    def rows(self) -> list[str]:
        with closing(self._open()) as database:
            return [data for (data,) in database.execute("SELECT data FROM rows ORDER BY rowid")]

    def into(self, stream: Any) -> Callable[[datetime, "RDD[Any]"], None]:
        """The output operation of `stream`."""
        if self.position() is None:
            with closing(self._open()) as database:
                self._keep(database, stream.committed)
        return lambda time, rdd: self.write(stream.positions_of(time), rdd)

    def write(self, positions: Any, rdd: "RDD[Any]") -> None:
        if positions is None:
            return
        assert positions.start == self.position()
        rows = rdd.map(lambda record: record.data.decode()).collect()
        self._batches += bool(rows)
        hang = self._hang if rows and self._batches == 2 else ""
        with closing(self._open()) as database:
            if self._when == "before":
                self._keep(database, positions.end)
            database.execute("BEGIN")
            for number, data in enumerate(rows):
                database.execute("INSERT INTO rows VALUES (?)", (data,))
                if hang == "in" and number == len(rows) // 2:
                    self._wait_to_be_killed()
            if self._when == "with":
                self._keep(database, positions.end)
            database.execute("COMMIT")
        if hang == "after":
            self._wait_to_be_killed()

    def _keep(self, database: sqlite3.Connection, position: dict[str, Any]) -> None:
        database.execute(
            "INSERT OR REPLACE INTO position (rowid, json) VALUES (1, ?)", (json.dumps(position),)
        )

    def _open(self) -> sqlite3.Connection:
        # Without transactions of Python's own.
        return sqlite3.connect(self.path, isolation_level=None)

    def _wait_to_be_killed(self) -> None:
        open(f"{self.path}.hangs", "w").close()
        threading.Event().wait()


def options(url: str, table: Table) -> dict[str, Any]:
    """Of the stream, which goes on from where the table ends."""
    begin: dict[str, Any] = {"starting_positions": table.position()}
    if begin["starting_positions"] is None:
        begin = {"startingPosition": "trim_horizon"}
    return {
        "region": "us-east-1",
        "endpointUrl": url,
        "awsAccessKeyId": "emulator",
        "awsSecretAccessKey": "emulator",
        "respectServiceLimits": False,
        "readTimeout": "60s",
        "maxRecordsPerTrigger": 20,
        **begin,
    }


def main() -> None:
    url, name, path, when, hang = sys.argv[1:]
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    conf = SparkConf().setMaster("local[2]").setAll(list(settings.items()))
    streaming = StreamingContext(SparkContext(conf=conf), 0.3)
    table = Table(path, when, hang)
    stream = kinesis_direct_stream(streaming, streamName=name, **options(url, table))
    stream.foreachRDD(table.into(stream))
    streaming.start()
    streaming.awaitTermination()


if __name__ == "__main__":
    main()
