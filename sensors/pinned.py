"""Tells somebody when a stream has been held at its maximum number of executors for too long.

The autoscaler would add executors and may not, or they would have nothing to do: a stream with two
shards has no work for a third. So batches are late, or soon will be. The reason that is told along
says which it is: a person has to raise the maximum, add shards to the source, or find out why the
stream needs so much.
"""

import json
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from dagster_sparkscale.declare.streams import Stream

CHECK = "below_maximum"
"""The check by which the autoscaler says whether a stream is held at its maximum. It is stored
when its outcome changes: the time of a failure is the time since when."""


@dataclass(frozen=True)
class Pinned:
    stream: str
    since: float
    """Seconds since the epoch."""
    reason: str

    def describe(self, now: float) -> str:
        minutes = max(0, int(now - self.since)) // 60
        return f"{self.stream} has been at its maximum for {minutes} min: {self.reason}"


def notify(log: logging.Logger, text: str) -> None:
    """Where the alert goes. Put a call to your pager or chat here."""
    log.warning(text)


def pinned_sensor(streams: Iterable[Stream], after_minutes: float = 10) -> dg.SensorDefinition:
    """A sensor that notifies once each time one of `streams` is pinned for `after_minutes`."""
    keys = {
        stream.name: dg.AssetKey([*stream.key_prefix, stream.name])
        for stream in streams
        if stream.autoscale is not None
    }

    @dg.sensor(
        name="pinned_at_maximum",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Notifies when a stream is held at its maximum number of executors.",
    )
    def pinned_at_maximum(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = time.time()
        pinned = [
            found
            for name, key in keys.items()
            if (found := _pinned(context.instance, name, key)) is not None
        ]
        told = _told(context.cursor)
        for one in overdue(pinned, told, now, after_minutes * 60):
            notify(context.log, one.describe(now))
            told[one.stream] = one.since
        return dg.SensorResult(
            skip_reason="; ".join(one.describe(now) for one in pinned)
            or "No stream is held at its maximum.",
            cursor=json.dumps(told),
        )

    return pinned_at_maximum


def overdue(
    pinned: Iterable[Pinned], told: dict[str, float], now: float, after: float
) -> list[Pinned]:
    """Those nobody was told about yet, although they have been pinned for `after` seconds.

    Args:
        told: by stream, since when the one that was told about last had been pinned.
    """
    return [one for one in pinned if now - one.since >= after and told.get(one.stream) != one.since]


def _pinned(instance: dg.DagsterInstance, stream: str, key: dg.AssetKey) -> Pinned | None:
    record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, CHECK))
    if record is None or record.status.value != "FAILED":
        return None
    evaluation = record.evaluation
    reason = (evaluation.description if evaluation else None) or "no reason was stored"
    # The record itself is dated to the second only.
    since = record.event.timestamp if record.event else record.create_timestamp
    return Pinned(stream, since, reason)


def _told(cursor: str | None) -> dict[str, float]:
    told: dict[str, float] = json.loads(cursor or "{}")
    return told
