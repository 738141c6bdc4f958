"""What batches have changed in the stores of a query's state, by the changes that Spark keeps.

Two states that were the same, and in which the same has changed since, are the same. So where few
keys have changed, far less is read than all rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from dagster_sparkscale.driver.state.fingerprint import Group
from dagster_sparkscale.driver.state.operators import Store


@dataclass(frozen=True)
class Batches:
    """Batches of the query whose checkpoint is in `checkpoint`: those after `after`, up to `last`,
    of which there is at least one."""

    checkpoint: str
    after: int
    last: int


def changes(
    session: Any, of: Iterable[Store], batches: Iterable[Batches]
) -> Sequence[Mapping[Store, Group]]:
    """How many keys each of these `batches` has changed in each store, and the hashes of what each
    key has come to: its last value, or that it is gone. By one job of Spark for all.

    Spark reads them in the order in which they were written, each partition of the state as one of
    the data (`readChangeFeed`, StateStoreChangeDataPartitionReader). RocksDB keeps them where it
    writes changelogs.

    Raises:
        Exception: they are not kept, or Spark can't read those of such a store.
    """
    every, stores = list(batches), sorted(of)
    of_each = [
        _of_store(session, each, store, f"{number} {place}")
        for number, each in enumerate(every)
        for place, store in enumerate(stores)
    ]
    found: list[dict[Store, Group]] = [{} for _ in every]
    for which, keys, upper, lower in reduce(lambda a, b: a.union(b), of_each).collect():
        number, place = map(int, which.split())
        found[number][stores[place]] = Group(int(keys), (int(upper or 0), int(lower or 0)))
    return found


def _of_store(session: Any, batches: Batches, store: Store, which: str) -> Any:
    """One row: which it is, and what has changed in one store."""
    from pyspark.sql import functions as f

    operator, name = store
    changed = (
        session.read.format("statestore")
        .option("readChangeFeed", "true")
        .option("changeStartBatchId", batches.after + 1)
        .option("changeEndBatchId", batches.last)
        .option("operatorId", operator)
        .option("storeName", name)
        .load(batches.checkpoint)
    )
    # Spark's hash of a struct passes over what is null, so that (5, null) would be (null, 5). JSON
    # tells where it is; the other texts tell microseconds, which it cuts.
    whole = f.to_json(f.struct("key", "value"), {"ignoreNullFields": "false"})
    texts = (f.col(name).cast("string") for name in ("key", "value"))
    # A key is always in the same partition.
    came = changed.select(
        "key",
        f.xxhash64("change_type", whole, *texts).alias("row"),
        f.monotonically_increasing_id().alias("order"),
    )
    last = came.groupBy("key").agg(f.max_by("row", "order").alias("row"))
    return last.agg(
        f.lit(which),
        f.count(f.lit(1)),
        f.sum(f.shiftright("row", 32)),
        f.sum(f.col("row").bitwiseAND(0xFFFFFFFF)),
    )
