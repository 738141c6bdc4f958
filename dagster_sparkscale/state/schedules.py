"""Schedules of maintenance windows: when state may be reconfigured by itself."""

import time

import dagster as dg

from dagster_sparkscale.clusters.in_time import in_time, why
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_flight import in_flight
from dagster_sparkscale.names import scoped
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.state.plan import Asked, Barred, Change
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

    @dg.schedule(
        name=scoped(f"maintain_{stream.name}", streams.cluster_key),
        cron_schedule=state.maintenance,
        execution_timezone=state.timezone,
        job=operations.jobs[NAME],
        default_status=dg.DefaultScheduleStatus.RUNNING,
        required_resource_keys={streams.cluster_key},
        description=f"Gives the state of {stream.name} the partitions that it should have.",
    )
    def maintain(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = time.time()
        cluster = streams.cluster(context)
        busy = in_flight(context.instance, streams.cluster_key, cluster, now).get(stream.name)
        if busy is not None:
            return dg.SkipReason(f"{busy} is in progress: the next window sees to it")
        seen = in_time(lambda: look(cluster, stream, Asked(again=False), id=NAME), deadline)
        if isinstance(seen, Exception):
            return dg.SkipReason(f"it can't be told what is to be done: {why(seen)}")
        driver, found = seen
        if isinstance(found, Change) and driver is not None:
            decision = Reconfigure(f"maintenance window: {'; '.join(found.lines)}")
            (request,) = operations.requests(stream, decision, driver.epoch, now)
            return request
        assert not isinstance(found, Change)
        word = "refused" if isinstance(found, Barred) else "nothing to do"
        return dg.SkipReason(f"{word}: {found.why}")

    return maintain
