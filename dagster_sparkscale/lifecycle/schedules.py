"""Schedules that ask, stream by stream, for an operation where it is due."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.deadlines import in_time, why
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_flight import in_flight
from dagster_sparkscale.in_force.steering import in_force
from dagster_sparkscale.names import scoped
from dagster_sparkscale.operations import Operations, Streams


@dataclass(frozen=True)
class Due:
    """An operation that is due."""

    decision: Decision
    epoch: int | None
    """The driver that it was decided for."""


def settings_of(name: str, operation: str, streams: Streams, operations: Operations) -> Any:
    """What all schedules of streams have in common, as keywords of `dg.schedule`."""
    return {
        "name": scoped(name, streams.cluster_key),
        "job": operations.jobs[operation],
        "default_status": dg.DefaultScheduleStatus.RUNNING,
        "required_resource_keys": {streams.cluster_key},
    }


def schedule_of(
    streams: Streams,
    operations: Operations,
    stream: Stream,
    decide: Callable[[ClusterManager, dg.DagsterInstance, float], Due | str],
    deadline: float,
    next_time: str,
    settings: Mapping[str, Any],
) -> dg.ScheduleDefinition:
    """A schedule that asks for an operation of `stream` where one is due.

    Args:
        decide: says what is due at that moment, or why nothing is done.
        deadline: seconds that it may take.
        next_time: what sees to it where another operation is in progress.
        settings: keywords of `dg.schedule`.
    """

    @dg.schedule(**settings)
    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = time.time()
        cluster, instance = streams.cluster(context), context.instance
        busy = in_flight(instance, streams.cluster_key, cluster, now).get(stream.name)
        if busy is not None:
            return dg.SkipReason(f"{busy} is in progress: the next {next_time} sees to it")

        def unless_steered() -> Due | str:
            steering = in_force(cluster.store().read(stream.name), stream, now)
            barring = steering.barring
            return steering.in_words(barring) if barring else decide(cluster, instance, now)

        due = in_time(unless_steered, deadline)
        if isinstance(due, Exception):
            return dg.SkipReason(f"it can't be told what is to be done: {why(due)}")
        if isinstance(due, str):
            return dg.SkipReason(due)
        (request,) = operations.requests(stream, due.decision, due.epoch, now)
        return request

    return evaluate
