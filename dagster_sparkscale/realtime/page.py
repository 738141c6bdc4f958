"""Task slots of a stream's real-time queries: what waits for them, and what lacks them. Pure."""

from collections.abc import Iterator, Mapping

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.declare.realtime import executors_for
from dagster_sparkscale.in_force import slots
from dagster_sparkscale.observe.evaluate import REAL_TIME
from dagster_sparkscale.observe.findings import Finding, Health
from dagster_sparkscale.observe.status import Status

_MARK = "task slots"


def busy(status: Status) -> str | None:
    """Say what a query waits for that is not started yet, as too few slots have registered."""
    return status.waits_for_slots


def faults(situation: Situation) -> Iterator[tuple[Health, Finding]]:
    """Find real-time queries that run on fewer slots than they need: Spark does not read the
    partitions of a source that find none, and says nothing of it."""
    status, needed = situation.status, _needed(situation)
    if status is None or needed is None or not _run(status):
        return
    there = _slots(status, situation.stream.cores_per_task)
    if there is not None and there < needed:
        yield (
            Health.BATCHES_COMPLETING,
            Finding(
                False,
                f"its real-time queries need {needed} task slots at once, and executors with "
                f"{there} stay: partitions that find no slot are not read, or Spark ends the query",
                mark=_MARK,
            ),
        )


def sections(situation: Situation) -> Mapping[str, str]:
    """The slots that are needed, and by whom that is known."""
    needed, stream = _needed(situation), situation.stream
    if needed is None:
        return {}
    record = situation.driver.record if situation.driver is not None else None
    said = slots.said(stream, record)
    by = "declared" if said is None else f"as Spark said to driver {said.epoch}"
    least = executors_for(needed, stream.tasks_at_a_time)
    text = f"{needed} task slots at once ({by}): at least {least} executors"
    waits = situation.status.waits_for_slots if situation.status is not None else None
    return {"real-time queries": text + (f"\n\n{waits}" if waits else "")}


def _needed(situation: Situation) -> int | None:
    record = situation.driver.record if situation.driver is not None else None
    said = slots.said(situation.stream, record)
    return slots.declared(situation.stream) if said is None else said.needed


def _run(status: Status) -> bool:
    return any(query.active and query.trigger == REAL_TIME for query in status.queries)


def _slots(status: Status, cores_per_task: int) -> int | None:
    """Task slots of the executors that stay; None: not known."""
    if status.registered is None or len(status.executors) != status.registered or status.removing:
        return None
    return sum(each.cores // cores_per_task for each in status.executors)
