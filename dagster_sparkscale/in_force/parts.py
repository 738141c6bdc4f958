"""What is remembered of a stream's parts between its starts: limits and receivers. Pure."""

from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force import lineage, live_limits, receiver_counts, slots, tuned
from dagster_sparkscale.observe.end_report import Slots


def at_start(
    record: Record,
    stream: Stream,
    now: float,
    drained: bool | None,
    lacked: Slots | None = None,
) -> tuple[Record, tuple[str, ...]]:
    """Prepare `record` for a start of `stream`; returns it with a line for each change.

    Args:
        now: seconds since the epoch.
        drained: whether the driver before processed all that it received; None: not known.
        lacked: the task slots that it lacked; None: none that it reports.
    """
    record, dropped = tuned.at_start(record, stream, now)
    record, changed = receiver_counts.at_start(record, stream, drained)
    record, needed = slots.at_start(record, stream, lacked)
    return record, (*dropped, *changed, *needed)


def remembered_settings(stream: Stream, record: Record) -> dict[str, str]:
    """The Spark settings by which a driver begins with what is remembered of all parts."""
    return {
        **tuned.standing(record.tuning, tuned.declared_limits(stream)),
        **receiver_counts.settings_of(stream, record),
        **live_limits.at_start(record.rates),
        **slots.settings_of(stream, record),
        **lineage.settings_of(stream, record),
    }


def pinned(stream: Stream, record: Record) -> int | None:
    """How many places of tasks are taken for good once a driver starts; None: as is declared."""
    return receiver_counts.in_force(stream, record)


def as_metadata(stream: Stream) -> dict[str, str]:
    """What the asset of the stream shows of the declaration of its parts."""
    return tuned.as_metadata(stream)
