"""The task slots that a stream's real-time queries need, as declared or as Spark has said. Pure.

Spark says it by refusing a query. What it said stands, and is what the next drivers begin with and
wait for, until another number is declared.
"""

from dataclasses import replace

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.records.store import Record, SlotsNeeded
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.realtime import RealTime, executors_for, why
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT
from dagster_sparkscale.observe.end_report import Slots
from dagster_sparkscale.observe.evaluate import REAL_TIME
from dagster_sparkscale.observe.status import Query


def declared(stream: Stream) -> int | None:
    """The slots that `stream` declares; None: none."""
    realtime = stream.realtime if isinstance(stream, StructuredStream) else None
    return None if realtime is None else realtime.slots


def said(stream: Stream, record: Record | None) -> SlotsNeeded | None:
    """What Spark has said that the queries need, where it is more than is declared; None: nothing
    that stands."""
    known = record.slots if record is not None else None
    if known is None or known.declared != declared(stream):
        return None
    return known if known.needed > (known.declared or 0) else None


def at_start(
    record: Record, stream: Stream, lacked: Slots | None
) -> tuple[Record, tuple[str, ...]]:
    """Prepare `record` for a start of `stream`; returns it with a line on what Spark has said anew.

    Args:
        lacked: the slots that the driver before has lacked.
    """
    standing = said(stream, record)
    lines: tuple[str, ...] = ()
    if lacked is not None and not lacked.declared:
        number = max(lacked.in_all, standing.needed if standing is not None else 0)
        standing = SlotsNeeded(number, record.epoch, declared(stream))
        each = stream.tasks_at_a_time
        lines = (
            f"Spark refused a real-time query of driver {record.epoch}, which needed "
            f"{lacked.needed} task slots at once, and {lacked.free} were free: the new driver "
            f"begins with {executors_for(number, each)} executors or more, and waits for {number} "
            f"slots; declare realtime=RealTime(slots={number})",
        )
    return replace(record, slots=standing), lines


def settings_of(stream: Stream, record: Record) -> dict[str, str]:
    """The Spark settings by which a driver waits for the slots that Spark has said."""
    if (known := said(stream, record)) is None:
        return {}
    wait = RealTime.model_fields["wait"].default
    made = {REALTIME_SLOTS: str(known.needed)}
    return made if known.declared is not None else made | {REALTIME_WAIT: f"{wait:g}"}


def bounds(stream: Stream, record: Record | None, within: Bounds) -> Bounds:
    """`within`, for what the queries need by what Spark has said."""
    if (known := said(stream, record)) is None:
        return within
    each = stream.tasks_at_a_time
    reason = f"{why(known.needed, each)}, as Spark said to driver {known.epoch}"
    return within.needing(executors_for(known.needed, each), reason)


def out_of_reach(stream: Stream, driver: Driver) -> str | None:
    """Why no start of `stream` can have the slots that `driver` has lacked, and what to do; None:
    it lacked none, or the next one can."""
    lacked = driver.slots
    if lacked is None or lacked.declared:
        return None
    each, most = stream.tasks_at_a_time, stream.bounds.maximum
    needed = max(lacked.in_all, declared(stream) or 0)
    executors = executors_for(needed, each)
    if most is None or executors <= most:
        return None
    return (
        f"Spark refused its real-time queries: they need {needed} task slots at once, and "
        f"{lacked.free} of {_known(lacked.registered)} were free. These are {executors} executors "
        f"with {each} each, and it may have {most}: raise max_executors to {executors} and declare "
        f"realtime=RealTime(slots={needed}), or give a query that has no state yet fewer "
        "spark.sql.shuffle.partitions"
    )


def lacking_for(stream: Stream, query: Query, partitions: int) -> str | None:
    """Why a real-time query can't have so many partitions of state, each of which needs a task slot
    beside those for its source; None: it can, or it is none."""
    if query.trigger != REAL_TIME:
        return None
    needed, each = partitions + (query.source_shards or 1), stream.tasks_at_a_time
    most, slots = stream.bounds.maximum, declared(stream)
    why = f"the real-time query {query.name!r} would need {needed} task slots at once, or more"
    if most is not None and executors_for(needed, each) > most:
        return f"{why}, and {most} executors have {most * each}: raise max_executors first"
    if slots is not None and needed > slots:
        return f"{why}, and realtime.slots = {slots}: declare as many first, and restart the stream"
    return None


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)
