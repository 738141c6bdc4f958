"""What sources tell of themselves: how far behind they are, their shards, what they lost, the limit
that they heeded. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from dagster_sparkscale.driver.wire import Batch

from .offsets import json_object, whole_number

_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The numbers of one source, or of several together. None: not reported, which is never a
    zero."""

    behind_ms: int | None = None
    """How far behind the tip of the stream, by time."""
    shards: int | None = None
    """Partitions of the source that are being read at present."""
    lost: int | None = None
    """How many times data was gone before it could be read, in all."""


NOTHING_TOLD = SourceReport()


@dataclass(frozen=True, slots=True)
class Input:
    """What one source gave a batch."""

    source: str | None
    """The source's name in its report, or `receiver-<stream id>`; None: it has none."""
    records: int
    limit: int | None = None
    """Records that it kept to in this batch, by its own word; None: it had no limit, or does not
    tell."""
    tells: bool = False
    """Whether it tells which limit it keeps to."""
    receiver: bool = False
    """Whether a receiver has it: limits are told to that one, and not looked up."""


@dataclass(frozen=True, slots=True)
class DoneBatch:
    """A batch that has completed, and what its sources gave it."""

    batch: Batch
    interval_ms: int
    """The interval of its query."""
    inputs: tuple[Input, ...] = ()
    """What each source gave it; empty if that is not known."""
    queues: bool = False
    """Whether batches are formed at each interval and wait for each other, as those of DStreams
    are. Others are planned when the one before is done."""


MOST_INPUTS = 100
"""Sources of a batch that are told of."""


def read_report(told: Any) -> SourceReport | None:
    """A source's report, from what it gave as its latest offset: JSON, or the text of it.

    None if that is something else, such as an offset. A Kafka topic may be named as our fields
    are; what it has there is an object, and no number.
    """
    told = json_object(told)
    if not any(
        name in told and not isinstance(told[name], Mapping) for name in ("behind_ms", "shards")
    ):
        return None
    return SourceReport(*(_count(told.get(name)) for name in ("behind_ms", "shards", "lost")))


def combine(reports: Iterable[SourceReport | None]) -> SourceReport:
    """Several sources as one: as far behind as the last of them, with the shards of all.

    The shards are known only where each source tells its own: executors are counted by them, and
    those of a source that does not tell need executors too.
    """
    reports = list(reports)
    told = [report for report in reports if report is not None]
    return SourceReport(
        behind_ms=max((r.behind_ms for r in told if r.behind_ms is not None), default=None),
        shards=whole_sum(r.shards if r else None for r in reports),
        # Not every source loses data, or tells of it.
        lost=known_sum(r.lost for r in told),
    )


def input_of(told: Any, records: Any) -> Input:
    """What a source gave a batch, from what it gave as its latest offset.

    Args:
        records: their number; what is none counts as 0.
    """
    given = json_object(told) if read_report(told) is not None else {}
    name = given.get("stream")
    return Input(
        name[:_LONGEST_NAME] if isinstance(name, str) and name else None,
        _count(records) or 0,
        _count(given.get("limit")) or None,
        "limit" in given,
    )


def inputs_of(progress: Mapping[str, Any]) -> tuple[Input, ...]:
    """What each source gave a batch of a Structured Streaming query, from its progress."""
    sources = tuple(progress.get("sources") or ())[:MOST_INPUTS]
    return tuple(input_of(each.get("latestOffset"), each.get("numInputRows")) for each in sources)


def report_of(
    progress: Mapping[str, Any], by_offsets: Sequence[SourceReport | None] = ()
) -> SourceReport:
    """What the sources of a Structured Streaming query have told, from its progress.

    Args:
        by_offsets: in the order of the sources, what is known of each by its offsets, if anything;
            it goes before what the source itself tells.
    """
    sources = progress.get("sources") or ()
    reports = [read_report(source.get("latestOffset")) for source in sources]
    return combine(known or told for known, told in zip_longest(by_offsets, reports))


def _count(value: Any) -> int | None:
    number = whole_number(value)
    # A little ahead of the tip, by clocks that differ, is at it.
    return None if number is None else max(0, number)


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None: nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def whole_sum(values: Iterable[int | None]) -> int | None:
    """The sum; None as soon as one part is unknown."""
    parts = list(values)
    return None if None in parts else known_sum(parts)
