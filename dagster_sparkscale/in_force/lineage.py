"""The lineage of a stream's drivers: the ids of their runs, and which ends they did not tell. Pure.

A driver that ends by itself tells its end. One that is killed can't, and one whose server was away
did not: the record remembers such an end once a new driver takes its place, until then the end
report shows it.
"""

from dataclasses import replace

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.records.store import Record, UntoldEnd
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.lineage.events import ABORT, COMPLETE, FAIL
from dagster_sparkscale.driver.lineage.plan import PREFIX
from dagster_sparkscale.driver.settings import LINEAGE_RECORD

MOST = 10
"""Untold ends that a record remembers."""


def untold_end(driver: Driver | None, now: float) -> UntoldEnd | None:
    """The end of `driver`, where it told its lineage and not that; None: there is no such end.

    Args:
        now: when it was found, seconds since the epoch; stands in where nobody knows when it ended.
    """
    if driver is None or driver.state.alive or driver.declared is None:
        return None
    plan = {name: text for name, text in driver.declared.items() if name.startswith(PREFIX)}
    said = driver.lineage
    if not plan or (said is not None and said.told):
        return None
    kind = said.kind if said is not None else _kind(driver)
    at = now if driver.ended_at is None else driver.ended_at
    return UntoldEnd(driver.epoch, at, kind, driver.exit_reason if kind == FAIL else None, plan)


def _kind(driver: Driver) -> str:
    """How a driver has ended that has not said it."""
    # One that a restart has ended counts as failed until the next one is there.
    restarted = driver.record is not None and driver.record.desired == "restarting"
    if driver.state is DriverState.FAILED and not restarted:
        return FAIL
    return COMPLETE if driver.drained else ABORT


def at_start(record: Record, ended: Driver | None, now: float) -> Record:
    """Prepare `record` for a start: the untold end of the driver before is remembered.

    Args:
        ended: the driver before, which has ended; None: there was none.
        now: seconds since the epoch.
    """
    end = untold_end(ended, now)
    if end is None or any(each.epoch == end.epoch for each in record.untold):
        return record
    return replace(record, untold=(*record.untold, end)[-MOST:])


def settings_of(stream: Stream, record: Record) -> dict[str, str]:
    """The Spark settings by which a driver knows the ids of its stream's runs."""
    return {} if stream.lineage is None else {LINEAGE_RECORD: record.id}
