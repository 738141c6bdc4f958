"""What sources tell of themselves: how far behind they are, their shards, what they lost. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Of one source, or of several together. None: not told, which is never a zero."""

    behind_ms: int | None = None
    """How far behind the tip of the stream, by time."""
    shards: int | None = None
    """Partitions of the source that are being read at present."""
    lost: int | None = None
    """How many times data was gone before it could be read, in all."""


NOTHING_TOLD = SourceReport()


def read_report(told: Any) -> SourceReport | None:
    """A source's report, from what it gave as its latest offset: JSON, or the text of it.

    None if that is something else, such as an offset. A Kafka topic may be named as our fields
    are; what it has there is an object, and no number.
    """
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except (ValueError, RecursionError):
            return None
    if not isinstance(told, Mapping) or not any(
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
        shards=_whole(r.shards if r else None for r in reports),
        lost=_known(r.lost for r in told),
    )


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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) < _LARGEST:  # NaN is not, either
        return None
    return max(0, int(value))  # a little ahead of the tip, by clocks that differ, is at it


def _whole(values: Iterable[int | None]) -> int | None:
    """The sum, or None as soon as one part is unknown."""
    total = None
    for value in values:
        if value is None:
            return None
        total = (total or 0) + value
    return total


def _known(values: Iterable[int | None]) -> int | None:
    """The sum of what is known: not every source loses data, or tells of it."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
