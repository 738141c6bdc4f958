"""Counts and hashes the rows of a query's state, by key group and partition, on its executors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .operators import Store
from .unchangeable import keyless


class Keyless(Exception):
    """An operator has no keys by which its rows are distributed; the text says why that can't be
    changed."""


@dataclass(frozen=True)
class Group:
    """The rows of one key group of one store."""

    rows: int
    hashes: tuple[int, int]
    """Sums of the upper and the lower halves of the rows' hashes, of which the order is no part."""


@dataclass(frozen=True)
class Partition:
    """The rows in one partition of one store."""

    rows: int
    misplaced: int = 0
    """Rows among them whose key Spark looks for in another partition."""


@dataclass(frozen=True)
class Rows:
    """All rows of one store: those of each key group and those in each partition that has any. Not
    those of each pair, of which there may be millions."""

    groups: Mapping[int, Group] = field(default_factory=dict)
    partitions: Mapping[int, Partition] = field(default_factory=dict)

    @property
    def misplaced(self) -> int:
        return sum(each.misplaced for each in self.partitions.values())


@dataclass(frozen=True)
class Fingerprint:
    """All of a query's state as of one batch."""

    batch: int
    partitions: int
    stores: Mapping[Store, Rows] = field(repr=False)

    @property
    def rows(self) -> int:
        return sum(self.partition_rows())

    @property
    def misplaced(self) -> int:
        return sum(store.misplaced for store in self.stores.values())

    def group_rows(self, key_groups: int) -> tuple[int, ...]:
        """Rows of each key group."""
        return _summed(key_groups, (store.groups for store in self.stores.values()))

    def partition_rows(self) -> tuple[int, ...]:
        """Rows of each partition."""
        return _summed(self.partitions, (store.partitions for store in self.stores.values()))


def _summed(count: int, of: Iterable[Mapping[int, Group | Partition]]) -> tuple[int, ...]:
    rows = [0] * count
    for each in of:
        for number, part in each.items():
            rows[number] += part.rows
    return tuple(rows)


def fingerprint(
    session: Any, checkpoint: str, of: Iterable[Store], batch: int, partitions: int, key_groups: int
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
) -> Rows:
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
        raise Keyless(keyless(operator))
    return rows_of(rows, partitions, key_groups)


def rows_of(state: Any, partitions: int, key_groups: int) -> Rows:
    """What the rows of one store sum up to.

    Args:
        state: a DataFrame of them, of which each partition is one of the state.
    """
    from pyspark.sql import functions as f

    row = f.xxhash64("column_family_name", "key_bytes", "value_bytes")
    placed = f.hash("partition_key")
    pairs = (
        state.select(
            f.pmod(placed, f.lit(key_groups)).alias("group"),
            f.spark_partition_id().alias("partition"),
            f.pmod(placed, f.lit(partitions)).alias("right"),
            row.alias("row"),
        )
        .groupBy("group", "partition")
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.sum(f.shiftright("row", 32)).alias("upper"),
            f.sum(f.col("row").bitwiseAND(0xFFFFFFFF)).alias("lower"),
            f.sum(f.when(f.col("partition") != f.col("right"), 1).otherwise(0)).alias("misplaced"),
        )
    )
    # There may be as many pairs as the least common multiple of both numbers: they stay on
    # executors. The state is read once.
    summed = pairs.groupingSets(
        [[f.col("group")], [f.col("partition")]], f.col("group"), f.col("partition")
    ).agg(f.sum("rows"), f.sum("upper"), f.sum("lower"), f.sum("misplaced"))
    groups, places = {}, {}
    for group, partition, count, upper, lower, misplaced in summed.collect():
        if partition is None:
            groups[int(group)] = Group(int(count), (int(upper), int(lower)))
        else:
            places[int(partition)] = Partition(int(count), int(misplaced))
    return Rows(groups, places)
