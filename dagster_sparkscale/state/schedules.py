"""Schedules of maintenance windows: when state may be reconfigured by itself."""

import dagster as dg

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.schedules import Due, schedule_of, settings_of
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.state.partition_change import PartitionChange
from dagster_sparkscale.state.plan import Asked, Barred
from dagster_sparkscale.state.reconfigure import look
from dagster_sparkscale.state.reconfigure_job import NAME, Reconfigure

DEADLINE = 30.0
"""Seconds that a tick may spend on looking: Dagster ends it after 60."""


def maintenance_schedules(
    streams: Streams, operations: Operations, *, deadline: float = DEADLINE
) -> list[dg.ScheduleDefinition]:
    """A schedule for each stream that declares a maintenance window."""
    return [
        _schedule(streams, operations, stream, deadline)
        for stream in streams
        if stream.state is not None and stream.state.maintenance is not None
    ]


def _schedule(
    streams: Streams, operations: Operations, stream: Stream, deadline: float
) -> dg.ScheduleDefinition:
    state = stream.state
    assert state is not None and state.maintenance is not None

    def decide(cluster: ClusterManager, _instance: dg.DagsterInstance, _now: float) -> Due | str:
        driver, found = look(cluster, stream, Asked(again=False), id=NAME)
        if isinstance(found, PartitionChange) and driver is not None:
            lines = "; ".join(found.lines)
            return Due(Reconfigure(f"maintenance window: {lines}"), driver.epoch)
        assert not isinstance(found, PartitionChange)
        outcome = "refused" if isinstance(found, Barred) else "nothing to do"
        return f"{outcome}: {found.why}"

    settings = {
        **settings_of(f"maintain_{stream.name}", NAME, streams, operations),
        "cron_schedule": state.maintenance,
        "execution_timezone": state.timezone,
        "description": f"Gives the state of {stream.name} the partitions that it should have.",
    }
    return schedule_of(streams, operations, stream, decide, deadline, "window", settings)
