"""Counts and hashes the rows of a query's state, by key group and partition, on its executors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Store = tuple[int, str]
"""Number of an operator, and name of one of its stores."""


class Keyless(Exception):
    """An operator has no keys by which its rows are distributed; the text says which."""


@dataclass(frozen=True)
class Part:
    """The rows of one key group in one partition of one store."""

    rows: int
    hashes: tuple[int, int]
    """Sums of the upper and the lower halves of the rows' hashes, of which the order is no part."""
    misplaced: int
    """Rows that are not in the partition where Spark looks for their key."""


@dataclass(frozen=True)
class Fingerprint:
    """All of a query's state as of one batch."""

    batch: int
    partitions: int
    parts: Mapping[Store, Mapping[tuple[int, int], Part]] = field(repr=False)
    """By store, by key group and partition."""

    @property
    def rows(self) -> int:
        return sum(part.rows for store in self.parts.values() for part in store.values())

    @property
    def misplaced(self) -> int:
        return sum(part.misplaced for store in self.parts.values() for part in store.values())

    def group_rows(self, key_groups: int) -> tuple[int, ...]:
        """Rows of each key group."""
        return self._by(key_groups, 0)

    def partition_rows(self) -> tuple[int, ...]:
        """Rows of each partition."""
        return self._by(self.partitions, 1)

    def _by(self, count: int, index: int) -> tuple[int, ...]:
        rows = [0] * count
        for store in self.parts.values():
            for where, part in store.items():
                rows[where[index]] += part.rows
        return tuple(rows)


def stores(session: Any, checkpoint: str) -> Mapping[Store, str]:
    """The stores of each stateful operator of a query, with the operator's name in Spark, by the
    metadata in its checkpoint."""
    listed = session.read.format("state-metadata").load(checkpoint)
    rows = listed.select("operatorId", "stateStoreName", "operatorName").collect()
    return {(int(row[0]), str(row[1])): str(row[2]) for row in sorted(rows)}


def fingerprint(
    session: Any,
    checkpoint: str,
    of: Iterable[Store],
    batch: int,
    partitions: int,
    key_groups: int,
) -> Fingerprint:
    """The fingerprint of the state as batch `batch` has left it in `partitions` partitions.

    Spark's state source reads all column families of a store, with the key by which the rows were
    distributed (StatePartitionKeyExtractor), and each partition of the state as one of the data
    (StatePartitionReaderAllColumnFamilies). Spark itself looks for a row in partition
    `pmod(hash(key), partitions)` (HashPartitioning).

    Raises:
        Keyless: for an operator without keys Spark has one partition only (SinglePartition), the
            first, whatever the hash of no key at all is; its repartitioning goes by that hash.
    """
    found = {
        store: _of_store(session, checkpoint, store, batch, partitions, key_groups) for store in of
    }
    return Fingerprint(batch, partitions, found)


def _of_store(
    session: Any, checkpoint: str, store: Store, batch: int, partitions: int, key_groups: int
) -> Mapping[tuple[int, int], Part]:
    from pyspark.sql import functions as f

    operator, name = store
    rows = (
        session.read.format("statestore")
        .option("batchId", batch)
        .option("operatorId", operator)
        .option("storeName", name)
        .option("_readAllColumnFamilies", "true")
        .load(checkpoint)
    )
    if not rows.schema["partition_key"].dataType.fields:
        raise Keyless(f"operator {operator} keeps one state of all rows, which has no keys")
    row = f.xxhash64("column_family_name", "key_bytes", "value_bytes")
    placed = f.hash("partition_key")
    grouped = (
        rows.select(
            f.pmod(placed, f.lit(key_groups)).alias("group"),
            f.spark_partition_id().alias("partition"),
            f.pmod(placed, f.lit(partitions)).alias("right"),
            row.alias("row"),
        )
        .groupBy("group", "partition")
        .agg(
            f.count(f.lit(1)),
            f.sum(f.shiftright("row", 32)),
            f.sum(f.col("row").bitwiseAND(0xFFFFFFFF)),
            f.sum(f.when(f.col("partition") != f.col("right"), 1).otherwise(0)),
        )
    )
    return {
        (int(r[0]), int(r[1])): Part(int(r[2]), (int(r[3]), int(r[4])), int(r[5]))
        for r in grouped.collect()
    }
