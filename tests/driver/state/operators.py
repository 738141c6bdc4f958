"""Queries with each stateful operator that Python has, over files of events that come in chunks."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

SCHEMA = "at timestamp, key int, value long"
KEYS = 50
CHUNKS = 4


def chunk(number: int) -> list[tuple[int, int, int]]:
    """Seconds, key and value of the events of a chunk. Each comes 30 s after the one before."""
    return [
        (number * 30 + i % 20, (i * 7 + number) % KEYS, (i * i + 31 * number) % 11)
        for i in range(120)
    ]


def aggregation(events: Any, _other: Any) -> Any:
    return events.groupBy("key").agg(f.count("*").alias("n"), f.sum("value").alias("sum"))


def windowed(events: Any, other: Any) -> Any:
    """Of two sources, so of the least of two watermarks."""
    late, others = (each.withWatermark("at", "5 seconds") for each in (events, other))
    return (
        late.union(others)
        .groupBy(f.window("at", "10 seconds"), "key")
        .agg(f.sum("value").alias("sum"))
    )


def chained(events: Any, other: Any) -> Any:
    by_key = windowed(events, other)
    return by_key.groupBy(f.window(f.window_time("window"), "20 seconds")).agg(
        f.sum("sum").alias("all"), f.count("*").alias("keys")
    )


def deduplicated(events: Any, _other: Any) -> Any:
    return events.dropDuplicates(["key", "value"]).select("key", "value")


def deduplicated_within(events: Any, _other: Any) -> Any:
    late = events.withWatermark("at", "5 seconds")
    return late.dropDuplicatesWithinWatermark(["key"]).select("key")


def _sides(events: Any, other: Any) -> tuple[Any, Any]:
    left = events.withWatermark("at", "5 seconds").alias("l")
    right = other.where("value % 3 = 0").withWatermark("at", "5 seconds").alias("r")
    return left, right


_NEAR = "l.key = r.key and r.at between l.at - interval 3 seconds and l.at + interval 3 seconds"


def inner_join(events: Any, other: Any) -> Any:
    left, right = _sides(events, other)
    return left.join(right, f.expr(_NEAR)).select("l.key", "l.value", "r.at")


def left_join(events: Any, other: Any) -> Any:
    left, right = _sides(events, other)
    return left.join(right, f.expr(_NEAR), "leftOuter").select("l.key", "l.value", "r.at")


def sessions(events: Any, _other: Any) -> Any:
    late = events.withWatermark("at", "5 seconds")
    return late.groupBy(f.session_window("at", "4 seconds"), "key").count()


def own_state(events: Any, _other: Any) -> Any:
    """applyInPandasWithState"""
    import pandas

    def counted(key: Any, chunks: Iterator[Any], state: Any) -> Iterator[Any]:
        before = state.get[0] if state.exists else 0
        count = before + sum(len(each) for each in chunks)
        state.update((count,))
        yield pandas.DataFrame({"key": [key[0]], "n": [count]})

    return events.groupBy("key").applyInPandasWithState(
        counted, "key int, n long", "n long", "update", "NoTimeout"
    )


def _counting(**kept: int) -> Any:
    """transformWithState: a processor with a value, a list and a map.

    Made here and not in the module, so that it is sent to who runs it, as it stands.

    Args:
        kept: what is said of each of its states.
    """
    import pandas
    from pyspark.sql.streaming import StatefulProcessor

    count = t.StructType([t.StructField("n", t.LongType())])

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", count, **kept)
            self.seen = handle.getListState("seen", count, **kept)
            self.by_value = handle.getMapState("by_value", count, count, **kept)

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Any]:
            n = self.count.get()[0] if self.count.exists() else 0
            for each in rows:
                n += len(each)
                self.seen.appendValue((len(each),))
                for value in each["value"]:
                    at = (int(value),)
                    self.by_value.updateValue(at, (self.of_value(at, n),))
            self.count.update((n,))
            values = sum(int(k[0]) * int(v[0]) for k, v in self.by_value.iterator())
            listed = sum(int(each[0]) for each in self.seen.get())
            yield pandas.DataFrame(
                {"key": [int(key[0])], "n": [int(n)], "listed": [listed], "values": [values]}
            )

        def of_value(self, at: tuple[int], n: int) -> int:
            """How often it has come."""
            old = self.by_value.getValue(at)[0] if self.by_value.containsKey(at) else 0
            return old + 1

        def close(self) -> None:
            pass

    return Counting


def _counted(events: Any, processor: Any, time_mode: str) -> Any:
    return events.groupBy("key").transformWithStateInPandas(
        statefulProcessor=processor,
        outputStructType="key int, n long, listed long, values long",
        outputMode="update",
        timeMode=time_mode,
    )


def transformed(events: Any, _other: Any) -> Any:
    """transformWithState: a value, a list and a map each."""
    return _counted(events, _counting()(), "none")


def timed(events: Any, _other: Any) -> Any:
    """transformWithState: a timer of the event time for each key, which tells and forgets it."""
    import pandas
    from pyspark.sql.streaming import StatefulProcessor

    count = t.StructType([t.StructField("n", t.LongType())])

    class Visits(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", count)

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Any]:
            n, last = self.count.get()[0] if self.count.exists() else 0, 0
            for each in rows:
                n += len(each)
                last = max(last, int(each["second"].max()))
            self.count.update((n,))
            if not list(self.handle.listTimers()):
                # Within this chunk or one of the next two, each key at a time of its own.
                self.handle.registerTimer((last + 20 + int(key[0])) * 1000)
            yield pandas.DataFrame({"key": [], "n": [], "at": []}).astype("int64")

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            n = int(self.count.get()[0])
            self.count.clear()
            at = int(expiredTimerInfo.getExpiryTimeInMs())
            yield pandas.DataFrame({"key": [int(key[0])], "n": [n], "at": [at]})

        def close(self) -> None:
            pass

    late = events.withWatermark("at", "5 seconds").withColumn("second", f.unix_timestamp("at"))
    return late.groupBy("key").transformWithStateInPandas(
        statefulProcessor=Visits(),
        outputStructType="key long, n long, at long",
        outputMode="append",
        timeMode="eventTime",
    )


def expiring(events: Any, _other: Any) -> Any:
    """transformWithState: a value, a list and a map that are forgotten after an hour."""
    counting = _counting(ttlDurationMs=3_600_000)

    class Expiring(counting):
        def of_value(self, at: tuple[int], n: int) -> int:
            """How many of its key there were when it came last."""
            return n

    return _counted(events, Expiring(), "processingTime")


def by_rows(events: Any, _other: Any) -> Any:
    """transformWithState, which is handed rows."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    count = t.StructType([t.StructField("n", t.LongType())])

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", count)
            self.by_value = handle.getMapState("by_value", count, count)

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Any]:
            n = self.count.get()[0] if self.count.exists() else 0
            for row in rows:
                n, at = n + 1, (int(row["value"]),)
                old = self.by_value.getValue(at)[0] if self.by_value.containsKey(at) else 0
                self.by_value.updateValue(at, (old + 1,))
            self.count.update((n,))
            values = sum(int(k[0]) * int(v[0]) for k, v in self.by_value.iterator())
            yield Row(key=key[0], n=n, values=values)

        def close(self) -> None:
            pass

    return events.groupBy("key").transformWithState(
        statefulProcessor=Counting(),
        outputStructType="key int, n long, values long",
        outputMode="update",
        timeMode="none",
    )


Query = Callable[[Any, Any], Any]
OPERATORS: dict[str, tuple[Query, str]] = {
    "aggregation": (aggregation, "update"),
    "windowed": (windowed, "append"),
    "chained": (chained, "append"),
    "deduplicated": (deduplicated, "append"),
    "deduplicated_within": (deduplicated_within, "append"),
    "inner_join": (inner_join, "append"),
    "left_join": (left_join, "append"),
    "sessions": (sessions, "append"),
    "own_state": (own_state, "update"),
    "transformed": (transformed, "update"),
    "by_rows": (by_rows, "update"),
    "timed": (timed, "append"),
    "expiring": (expiring, "update"),
}
ENDLESS = ("expiring",)
"""Where time of the clock counts Spark runs one batch without data after the other: a trigger that
ends once there is no more to do never ends."""
_STORE = "spark.sql.streaming.stateStore"
_FORMAT_2 = {f"{_STORE}.checkpointFormatVersion": "2"}
_CHANGELOGS = f"{_STORE}.rocksdb.changelogCheckpointing.enabled"
VARIANTS = {
    "format-2": _FORMAT_2,
    "format-2-changelogs": {**_FORMAT_2, _CHANGELOGS: "true"},
    "changelogs": {_CHANGELOGS: "true"},
    "offset-log-2": {"spark.sql.streaming.offsetLog.formatVersion": "2"},
}
"""Settings of Spark that have state stored in other forms."""
