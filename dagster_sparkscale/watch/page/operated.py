"""The operations that are over, of all streams of a cluster: one query of Dagster's runs a tick."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.markdown import shortened
from dagster_sparkscale.names import (
    BY_TAG,
    CLUSTER_TAG,
    OPERATION_TAG,
    OUTCOME_TAG,
    READING_TAG,
    STREAM_TAG,
    is_autoscaler,
)
from dagster_sparkscale.private_dagster import (
    PARENT_RUN_ID_TAG,
    RETRY_NUMBER_TAG,
    RUN_KEY_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
)
from dagster_sparkscale.watch.page.overview import DECISIONS, Operated

SINCE = 6 * 3600.0
"""Seconds for which operations are read back, as long as the picture is."""
AGAIN = 120.0
"""Seconds that are read again: the end of a run may be stored after a later one's."""
MOST = 500
"""Runs that are read at once, the newest."""
LAUNCHPAD = "by hand"
"""The person behind a run of the UI: Dagster itself knows no users."""
NEWS = 200
"""Characters of news: a reason may be of any length, and the cursor remembers what was told."""

_OVER = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dataclass
class RecentOperations:
    """What the process of the sensor remembers of them."""

    cluster_key: str
    _by_stream: dict[str, deque[Operated]] = field(default_factory=dict)
    _read_at: float | None = None

    def read_on(self, instance: DagsterInstance, now: float) -> None:
        """Read what has ended since the last time.

        Args:
            now: seconds since the epoch.
        """
        since = now - SINCE if self._read_at is None else min(now, self._read_at) - AGAIN
        # Of most minutes there is no run at all, and to ask for that costs half.
        if _any_run(instance, since):
            for each in ended(instance, self.cluster_key, since):
                known = self._by_stream.setdefault(each.stream, deque(maxlen=DECISIONS))
                if each.run_id not in {one.run_id for one in known}:
                    known.append(each)
        self._read_at = now

    def of(self, stream: str) -> Sequence[Operated]:
        """The last operations on a stream, in the order in which they ended."""
        return tuple(self._by_stream.get(stream, ()))


def _any_run(instance: DagsterInstance, since: float) -> bool:
    """Whether any run, of whatever job, has changed since then (seconds since the epoch)."""
    return bool(instance.get_run_ids(dg.RunsFilter(updated_after=_utc(since)), limit=1))


def ended(
    instance: DagsterInstance, cluster_key: str, since: float, stream: str | None = None
) -> list[Operated]:
    """The operations that have ended since then, in order.

    Args:
        since: seconds since the epoch.
        stream: the one they were on; None: any of the cluster.
    """
    of_stream = {} if stream is None else {STREAM_TAG: stream}
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=list(_OVER),
            tags={CLUSTER_TAG: cluster_key, **of_stream},
            updated_after=_utc(since),
        ),
        limit=MOST,
    )
    found = [each for record in records if (each := _operated(record, cluster_key)) is not None]
    # The newest come first, and those of one second stay in the order in which they were asked for.
    return sorted(reversed(found), key=lambda each: each.at)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def news_of(operated: Iterable[Operated]) -> str:
    """What people, schedules or a failure have last done to a stream, in a line; empty: nothing.
    What the autoscaler has done shows by itself. With the run, as what is done twice is news
    twice."""
    notable = [each for each in operated if each.failed or not each.run_key]
    if not notable:
        return ""
    last = notable[-1]
    return f"{shortened(f'{last.by}: {last.line}', NEWS)} (run {last.run_id[:8]})"


def _operated(record: dg.RunRecord, cluster_key: str) -> Operated | None:
    """What a run did, if it was an operation on one stream that was to change something."""
    run = record.dagster_run
    stream, operation = run.tags.get(STREAM_TAG), run.tags.get(OPERATION_TAG)
    if stream is None or operation is None or run.tags.get(READING_TAG) == "true":
        return None
    reason = reason_of(run.run_config)
    schedule, sensor = run.tags.get(SCHEDULE_NAME_TAG), run.tags.get(SENSOR_NAME_TAG)
    # Who repeats a run in the UI gets its tags too, but it is theirs: Dagster's own retries count.
    repeats = PARENT_RUN_ID_TAG in run.tags and RETRY_NUMBER_TAG not in run.tags
    if repeats:
        by = LAUNCHPAD
    elif schedule or sensor:
        by = f"schedule {schedule}" if schedule else f"sensor {sensor}"
    else:
        by = run.tags.get(BY_TAG, LAUNCHPAD)
    # What the autoscaler has decided is among the minutes.
    decided = (sensor is None or is_autoscaler(sensor, cluster_key)) and not repeats
    return Operated(
        at=record.end_time or record.update_timestamp.timestamp(),
        stream=stream,
        operation=operation,
        by=by,
        reason="" if reason.startswith("by hand") else reason,
        outcome=run.tags.get(OUTCOME_TAG, ""),
        failed=run.status is not dg.DagsterRunStatus.SUCCESS,
        run_id=run.run_id,
        run_key=run.tags.get(RUN_KEY_TAG, "") if decided else "",
    )


def reason_of(run_config: Mapping[str, Any]) -> str:
    """The reason in the config of the one op of an operation."""
    ops = run_config.get("ops")
    for op in ops.values() if isinstance(ops, Mapping) else ():
        config = op.get("config") if isinstance(op, Mapping) else None
        if isinstance(config, Mapping) and isinstance(config.get("reason"), str):
            return str(config["reason"])
    return ""
