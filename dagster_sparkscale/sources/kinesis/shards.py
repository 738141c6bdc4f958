"""Shards, their lineage, and which of them may be begun. Pure.

A split or a merge closes shards and opens others, their children. The order of the records of a
partition key is kept by reading a child only when every parent has been read to its end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .positions import Kind, Position


@dataclass(frozen=True, slots=True)
class Shard:
    id: str
    parents: tuple[str, ...] = ()
    closed: bool = False
    first: str | None = None
    """The sequence number it began with, which need not be that of a record."""


def roots(listed: Iterable[Shard]) -> list[str]:
    """Shards with no parent that is still listed: where the oldest data is."""
    shards = list(listed)
    ids = {shard.id for shard in shards}
    return [shard.id for shard in shards if not ids.intersection(shard.parents)]


def ancestors(of: Iterable[str], listed: Iterable[Shard]) -> set[str]:
    """All that the shards `of` descend from, as far as it is still listed; none of `of` itself
    unless it is the ancestor of another."""
    parents = {shard.id: shard.parents for shard in listed}
    found: set[str] = set()
    todo = [parent for shard in of for parent in parents.get(shard, ())]
    while todo:
        shard = todo.pop()
        if shard not in found:
            found.add(shard)
            todo += parents.get(shard, ())
    return found


def startable(listed: Iterable[Shard], positions: Mapping[str, Position]) -> list[str]:
    """Shards to begin now: neither begun nor passed over, and every parent has been read.

    A parent that is no longer listed is older than what the stream retains: nothing of it is left.
    A parent that was passed over, because reading began behind it, does not hold its child up.
    """
    shards = list(listed)
    ids = {shard.id for shard in shards}
    passed = ancestors(positions, shards)

    def done(parent: str) -> bool:
        if parent in positions:
            return positions[parent].kind is Kind.END
        return parent not in ids or parent in passed

    return [
        shard.id
        for shard in shards
        if shard.id not in positions
        and shard.id not in passed
        and all(done(parent) for parent in shard.parents)
    ]


def forgettable(listed: Iterable[Shard], positions: Mapping[str, Position]) -> list[str]:
    """Shards that have been read to their end and are no longer listed."""
    ids = {shard.id for shard in listed}
    return [
        shard
        for shard, position in positions.items()
        if position.kind is Kind.END and shard not in ids
    ]


def missing(listed: Iterable[Shard], positions: Mapping[str, Position]) -> list[str]:
    """Shards that have gone before they were read to their end."""
    ids = {shard.id for shard in listed}
    return sorted(
        shard
        for shard, position in positions.items()
        if position.kind is not Kind.END and shard not in ids
    )
