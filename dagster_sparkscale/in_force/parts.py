"""What is remembered of a stream's parts between its starts: a row for each of them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force import live_limits, receiver_counts, tuned

AtStart = Callable[[Record, Stream, float, bool | None], tuple[Record, tuple[str, ...]]]


@dataclass(frozen=True)
class Remembering:
    """What is remembered of one part; by default nothing."""

    at_start: AtStart = lambda record, stream, now, drained: (record, ())
    """The record as a start of the stream is to find it, and what changes by that, a line each;
    from the seconds since the epoch, and whether the driver before has processed all that it had
    received (None: not known)."""
    settings: Callable[[Stream, Record], Mapping[str, str]] = lambda stream, record: {}
    """The Spark settings by which a driver begins with it."""
    pinned: Callable[[Stream, Record], int | None] = lambda stream, record: None
    """How many places of tasks it takes for good; None: as is declared."""
    as_metadata: Callable[[Stream], Mapping[str, str]] = lambda stream: {}
    """What the asset of the stream shows of its declaration."""


REMEMBERING = (
    Remembering(
        lambda record, stream, now, drained: tuned.at_start(record, stream, now),
        lambda stream, record: tuned.standing(record.tuning, tuned.declared_limits(stream)),
        as_metadata=tuned.as_metadata,
    ),
    Remembering(
        lambda record, stream, now, drained: receiver_counts.at_start(record, stream, drained),
        receiver_counts.settings_of,
        receiver_counts.in_force,
    ),
    Remembering(settings=lambda stream, record: live_limits.at_start(record.rates)),
)


def remembered_settings(stream: Stream, record: Record) -> dict[str, str]:
    """The Spark settings by which a driver begins with what is remembered of all parts."""
    made: dict[str, str] = {}
    for part in REMEMBERING:
        made.update(part.settings(stream, record))
    return made


def pinned(stream: Stream, record: Record) -> int | None:
    """How many places of tasks are taken for good once a driver starts; None: as is declared."""
    numbers = (part.pinned(stream, record) for part in REMEMBERING)
    return next((number for number in numbers if number is not None), None)


def as_metadata(stream: Stream) -> dict[str, str]:
    """What the asset of the stream shows of the declaration of its parts."""
    return {name: text for part in REMEMBERING for name, text in part.as_metadata(stream).items()}
