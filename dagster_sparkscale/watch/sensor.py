"""The sensor: one a cluster for all its streams, or several for a part of them each.

It looks, assesses, and asks for runs; it changes nothing itself. What one evaluation does is in
`tick.py`; what of it outlives the tick within the process, in `process.py`.
"""

import dagster as dg

from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.names import STREAMS
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.private_dagster import carrying
from dagster_sparkscale.watch.board import shards_of
from dagster_sparkscale.watch.process import Watch
from dagster_sparkscale.watch.tick import Tick
from dagster_sparkscale.watch.turns import TICK

LONGEST_PAUSE = 60.0
"""Seconds between two ticks at most: whatever the policies say, streams are observed and failed
drivers restarted."""


def autoscale_sensors(
    streams: Streams,
    operations: Operations,
    capabilities: Capabilities,
    *,
    default_status: dg.DefaultSensorStatus,
    seconds: float = TICK,
    budget: Budget | None = None,
) -> list[dg.SensorDefinition]:
    """The sensors that evaluate `streams`, a shard of them each, and request runs of what is
    decided.

    Args:
        seconds: of a tick, storing included.
    """
    return [
        _sensor(Watch(streams, shard, operations, capabilities, budget), default_status, seconds)
        for shard in shards_of(streams)
    ]


def autoscale_sensor(
    streams: Streams,
    operations: Operations,
    capabilities: Capabilities,
    *,
    default_status: dg.DefaultSensorStatus,
    seconds: float = TICK,
    budget: Budget | None = None,
) -> dg.SensorDefinition:
    """The sensor of `streams` that have but one.

    Args:
        seconds: of a tick, storing included.
    """
    (only,) = autoscale_sensors(
        *(streams, operations, capabilities),
        default_status=default_status,
        seconds=seconds,
        budget=budget,
    )
    return only


def _sensor(
    watch: Watch, default_status: dg.DefaultSensorStatus, seconds: float
) -> dg.SensorDefinition:
    shard, streams = watch.shard, watch.streams
    intervals = [each.autoscale.interval for each in shard.streams.values() if each.autoscale]
    which = "every stream" if streams.shards == 1 else f"{len(shard.streams)} of the streams"

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with watch.alone(seconds) as began:
            return Tick(watch, context, began, seconds).evaluate()

    return dg.SensorDefinition(
        name=shard.sensor,
        evaluation_fn=evaluate,
        jobs=watch.operations.decided,
        # A longer interval of a policy is kept by when it last decided; the rest is seen to anyway.
        minimum_interval_seconds=max(1, int(min([LONGEST_PAUSE, *intervals]))),
        default_status=default_status,
        required_resource_keys={streams.cluster_key},
        # Once: who looks for a cluster's streams finds them by it.
        metadata=carrying(STREAMS, streams) if shard.leads else None,
        description=f"Evaluates {which}, observes each, and requests its rescales and restarts.",
    )
