"""Streams that are retuned, on a cluster in memory, with a history in Dagster's event log."""

import time
from dataclasses import replace
from typing import Any

import dagster as dg

from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.limits import SourceLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Limit
from tests.backpressure.histories import BEGAN, minutes
from tests.fakes import structured
from tests.in_memory.driver import Kept
from tests.observe.stored import store
from tests.watch.deployment import Deployment

JOB = "retune_backpressure"
KNOB = "clicks.maxOffsetsPerTrigger"
SETTING = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"


RETUNE = Retune(schedule="0 3 * * *", apply=True)


def read_once(
    most: int = 62_000, retune: Retune | None = RETUNE, **fields: Any
) -> StructuredStream:
    """A stream whose limit is far too high for what its history says."""
    limits = {"clicks": SourceLimits(max_offsets_per_trigger=most)}
    return structured(limits=limits, retune=retune, **fields)


def policed(retune: Retune | None = RETUNE, **policy: Any) -> StructuredStream:
    """A stream that is limited while it runs."""
    return structured(backpressure=BackpressurePolicy(**policy), retune=retune)


def deployment(
    stream: Stream | None = None, instance: dg.DagsterInstance | None = None
) -> Deployment:
    """A code location with a stream that runs, and one that has no limits."""
    stream = read_once() if stream is None else stream
    more = {} if instance is None else {"instance": instance}
    it = Deployment([stream, structured("plain")], **more)
    it.world.on_submit = lambda kept: setattr(kept, "batch_seconds", 1.0)
    kept = it.world.run(stream)
    kept.limits = (Limit("clicks"),) if stream.backpressure is not None else ()
    return it


def past(count: int = 480, ago: float = 0.0, **fields: Any) -> list[Minute]:
    """So many minutes, the last of them that many seconds ago."""
    shift = int(time.time() - ago) - BEGAN - 60 * count
    return [replace(each, at=each.at + shift) for each in minutes(count, **fields)]


def has_run(deployed: Deployment, *parts: list[Minute]) -> None:
    """Have these minutes in the event log."""
    for part in parts or (past(),):
        store(deployed.instance, dg.AssetKey("clicks"), part)


def record(deployed: Deployment) -> Record:
    return deployed.world.records["clicks"]


def tuning(deployed: Deployment) -> Tuning:
    found = record(deployed).tuning
    assert found is not None
    return found


def remember(deployed: Deployment, **fields: Any) -> None:
    """Have what is remembered of the stream otherwise."""
    now = record(deployed)
    deployed.world.records["clicks"] = replace(now, revision=now.revision + 1, **fields)


def tuned_before(stream: Stream, **fields: Any) -> Tuning:
    plain: dict[str, Any] = {"settings": {SETTING: "9000"}, "by": "run 1", "at": time.time() - 60}
    declared = declared_limits(stream)
    return Tuning(**{**plain, "declared": declared, "before": declared, **fields})


def told(result: dg.ExecuteInProcessResult) -> tuple[str, dict[str, Any]]:
    """The line and the story of the run's page."""
    assert result.success
    (event,) = result.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    assert observation.asset_key == dg.AssetKey("clicks")
    return observation.description or "", dict(observation.metadata[STORY].value)


def kept(deployed: Deployment) -> Kept:
    """What the cluster keeps of the stream."""
    return deployed.world.streams["clicks"]


def ran(deployed: Deployment, **config: Any) -> dg.ExecuteInProcessResult:
    """A run of the operation, as a person asks for it."""
    return deployed.by_hand(JOB, stream="clicks", **config)


def ran_again(deployed: Deployment) -> Kept:
    """What there is after a restart."""
    assert deployed.by_hand("restart", stream="clicks").success
    return kept(deployed)
