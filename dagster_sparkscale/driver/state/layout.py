"""What lies in the checkpoint of a Structured Streaming query, by its names and its texts. Pure.

offsets/N     what batch N reads, and the settings that it is bound to
commits/N     that batch N is done
state/        a folder an operator, in it one a partition
_sparkscale_state/  ours: key groups, and what a change in progress must know
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OFFSETS, COMMITS, STATE = "offsets", "commits", "state"
TOUCHED = (OFFSETS, COMMITS, STATE)
"""The folders in which a change of the state may touch files."""
METADATA = "metadata"
OURS = "_sparkscale_state"
COPIES = f"{OURS}/beside"
"""The folder of the copies of a checkpoint that are changed beside the stream."""
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
"""What Spark takes where nothing is set."""
JOIN = "symmetricHashJoin"
"""The operator that joins two streams, as Spark calls it."""
RETAINED = "spark.sql.streaming.minBatchesToRetain"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_JOIN_FORMAT = 1
"""The format of a checkpoint that does not say it."""


class Unreadable(ValueError):
    """A file of the checkpoint is not what Spark writes; the text says which, and what is wrong."""


@dataclass(frozen=True)
class QuerySettings:
    """What a batch of a query is bound to, by its entry in the offset log."""

    partitions: int | None
    """None: an entry of a Spark that did not write it down."""
    provider: str
    join_format: int = _JOIN_FORMAT
    """The format of the state of joins, if there are any."""


def latest(names: Iterable[str]) -> int | None:
    """The highest batch among the names of a log's files; None: there is none."""
    return max((int(name) for name in names if name.isdecimal()), default=None)


def bound(entry: str, where: str) -> QuerySettings:
    """The settings in an entry of the offset log: its second line, as `OffsetSeqLog` writes it.

    Raises:
        Unreadable: the text is no such entry.
    """
    lines = entry.splitlines()
    if len(lines) < 2 or not lines[0].startswith("v"):
        raise Unreadable(f"{where}: is no entry of an offset log")
    if not lines[1].strip():
        return QuerySettings(None, HDFS)
    try:
        conf: Any = json.loads(lines[1]).get("conf", {})
        partitions = conf.get(PARTITIONS)
        return QuerySettings(
            None if partitions is None else int(partitions),
            str(conf.get(PROVIDER, HDFS)),
            int(conf.get(JOIN_FORMAT, _JOIN_FORMAT)),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise Unreadable(f"{where}: its settings can't be read: {error}") from None


def short(class_name: str) -> str:
    """A class without its package."""
    return class_name.rpartition(".")[2]


def why_not_by(provider: str) -> str | None:
    """Why Spark can't change the partitions of what a provider keeps, in words; None: it can.

    Args:
        provider: its class, with its package or without.
    """
    needed = short(ROCKSDB)
    if provider in (ROCKSDB, needed):
        return None
    kept = provider if short(provider) == needed else short(provider)
    return (
        f"its state is kept by {kept}, whose partitions Spark can't change, only those of "
        f"{needed}: set {PROVIDER} to {ROCKSDB} and begin with a new checkpoint, for one that "
        "exists keeps the provider it was begun with"
    )


@dataclass(frozen=True)
class Logs:
    """How far a query has come."""

    batch: int
    """The last one."""
    bound: QuerySettings
    """What that batch is bound to."""
    committed: int | None
    """The last one that is done."""


def why_not_settled(logs: Logs) -> str | None:
    """Why the state can't be changed as the logs stand, in words; None: it can."""
    if logs.committed == logs.batch:
        return None
    if logs.committed is None:
        return f"no batch of it is done yet; batch {logs.batch} is in progress"
    return (
        f"its last batch, {logs.batch}, was cut off in the middle: it is run again now, and the "
        "state can be changed after it"
    )


def added(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, ...]:
    """The files that have come, in the order in which they are to go."""
    return tuple(sorted(now.keys() - before.keys(), key=lambda name: (turn(name), name)))


_TURNS = {COMMITS: 0, OFFSETS: 1}


def turn(name: str) -> tuple[int, int]:
    """When a file is to go that a change has brought, beside those of the same turn.

    The logs first, from the one that says that the change is done: so that a start in the middle
    sees a batch in progress rather than one whose state is gone. Of state what lies deeper first:
    so that a snapshot goes after its parts, as it alone tells whose they are.
    """
    return _TURNS.get(name.split("/")[0], 2), -name.count("/")


def unlisted(
    files: Iterable[str], batch: int, operators: Iterable[int], partitions: int
) -> tuple[str, ...]:
    """What must be among the files of a checkpoint whose last batch is done, and is not: files, and
    folders of state that have none."""
    there = set(files)
    needed = {f"{OFFSETS}/{batch}", f"{COMMITS}/{batch}"}
    needed |= {f"{STATE}/{op}/{part}" for op in operators for part in range(partitions)}
    return tuple(sorted(needed - there - _parents(there)))


def emptied(before: Iterable[str], gone: Iterable[str]) -> tuple[str, ...]:
    """The folders that held nothing but what is gone, the deepest first."""
    folders = _parents(gone) - _parents(before)
    return tuple(sorted(folders, key=lambda name: (-name.count("/"), name)))


def _parents(names: Iterable[str]) -> set[str]:
    found = set()
    for name in names:
        parts = name.split("/")
        found |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    return found


def lost(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, ...]:
    """The files that have gone, or have another size."""
    return tuple(sorted(name for name, size in before.items() if now.get(name) != size))
