"""What a batch reads of one shard; made by the planner, carried to an executor, read there."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import dropwhile

from .positions import Kind, Offset, Position
from .service import Page, Record, arrived_ms


@dataclass(frozen=True)
class Range:
    """The records of a shard from `start` to `end`.

    Those it begins with, `head`, have been read by the planner and travel with it. The rest is
    read by an executor.
    """

    shard: str
    start: Position
    end: Position
    head: tuple[Record, ...] = ()
    whole: bool = False
    """Whether `head` is all of it."""
    iterator: str | None = None
    """Goes on right behind `head`. It expires, and may always be got anew."""
    kept_ms: int | None = None
    """How long the stream keeps a record; None if it is not known."""


def between(begin: Offset, until: Offset, kept_ms: int | None = None) -> list[Range]:
    """The ranges from one offset to another, with nothing of them read."""
    ranges = []
    for shard, end in until.shards.items():
        start = begin.shards.get(shard) or begin.first()
        # A moment is no end: up to there no record has been read, or there was none to go on
        # from. A position whose time alone was renewed has moved past no record either.
        ends = end.kind is Kind.END or end.sequence is not None
        if ends and (start.kind, start.sequence) != (end.kind, end.sequence):
            ranges.append(Range(shard, start, end, kept_ms=kept_ms))
    return ranges


def joined(ranges: Iterable[Range]) -> list[Range]:
    """One range a shard, of some of which those of a shard follow each other; each shard is where
    its first one was."""
    found: dict[str, Range] = {}
    for each in ranges:
        earlier = found.get(each.shard)
        found[each.shard] = each if earlier is None else _followed(earlier, each)
    return list(found.values())


def _followed(one: Range, other: Range) -> Range:
    if not one.whole:  # what was read of the other one does not lie right behind the head
        return replace(one, end=other.end)
    return replace(other, start=one.start, head=one.head + other.head)


def asked_for(position: Position, page: Page) -> Page:
    """A page that was read from `position` on, without what came before it.

    An iterator of a moment that nothing had followed yet gives whatever comes next, and stamps are
    not quite in order; one that is got later begins at the first record of that moment.
    """
    moment = position.time_ms
    if position.kind is not Kind.TIME or moment is None:
        return page
    if not page.records or arrived_ms(page.records[0]) >= moment:
        return page
    wanted = dropwhile(lambda record: arrived_ms(record) < moment, page.records)
    return replace(page, records=list(wanted))
