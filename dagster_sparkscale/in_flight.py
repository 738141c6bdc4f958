"""Finds operations in flight: those whose runs wait or are carried out."""

import time
from collections.abc import Container, Mapping
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import is_held
from dagster_sparkscale.clusters.records.overtaking import STEER
from dagster_sparkscale.deadlines import Calls, NoAnswer
from dagster_sparkscale.names import CLUSTER_TAG, EXPIRES_TAG, OPERATION_TAG, STREAM_TAG

BEGINS = 300.0
"""Seconds after which a run that was made or launched and has not begun no longer counts as in
flight: its process may have died. One that is queued counts for as long as it is."""
TAKES_LEASE = 60.0
"""Seconds after its beginning by which a run has taken its stream's lease, or waits for who has it.
After that one whose stream nobody holds keeps no stream from recovery: whatever it is about to do,
it does under the lease, where each looks again."""
FOLLOWS = 300.0
"""Seconds after its beginning for which a run counts as in flight though nobody holds its stream:
it follows what it has asked for, such as executors. Its process may have died."""
ASKING = 3.0
"""Seconds for asking who holds a stream: a state folder whose server is gone never answers, and a
tick must end."""
ASKING_IN_ALL = 5.0
"""Seconds for asking that of all runs: each may be slow, after a rescale of hundreds of streams."""
_CALLS = Calls()


@dataclass(frozen=True)
class InFlight:
    """The run of an operation that is about to be carried out, or is being carried out."""

    run: str
    """The run's name for people: `rescale run 1a2b3c4d`."""
    bars_recovery: bool = True
    """False: it will do nothing to a driver that has failed, or its process may have died."""

    def __str__(self) -> str:
        return self.run


def in_flight(
    instance: DagsterInstance,
    cluster_key: str,
    cluster: ClusterManager,
    now: float,
    of: Container[str] | None = None,
) -> Mapping[str, InFlight]:
    """Find the operation in flight of each stream.

    Args:
        cluster: the cluster manager, which knows the leases that are held.
        of: the streams that matter; None: all of the cluster.
    """
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=[
                dg.DagsterRunStatus.QUEUED,
                dg.DagsterRunStatus.NOT_STARTED,
                dg.DagsterRunStatus.STARTING,
                dg.DagsterRunStatus.STARTED,
                dg.DagsterRunStatus.CANCELING,
            ],
            tags={CLUSTER_TAG: cluster_key},
        )
    )
    found: dict[str, InFlight] = {}
    until = time.monotonic() + ASKING_IN_ALL
    for record in records:
        run = record.dagster_run
        stream = run.tags.get(STREAM_TAG)
        if run.tags.get(OPERATION_TAG) == STEER:
            continue
        if stream is None or (of is not None and stream not in of):
            continue
        if stream in found and found[stream].bars_recovery:
            continue
        bars = _in_flight(record, stream, cluster_key, cluster, now, until)
        if bars is not None:
            operation = run.tags.get(OPERATION_TAG, "operation")
            found[stream] = InFlight(f"{operation} run {run.run_id[:8]}", bars)
    return found


def _in_flight(
    record: dg.RunRecord,
    stream: str,
    cluster_key: str,
    cluster: ClusterManager,
    now: float,
    until: float,
) -> bool | None:
    """Whether a run that is in flight bars recovery; None: it is not in flight.

    Args:
        until: when the store is not asked any more, by `time.monotonic()`.
    """
    run, made = record.dagster_run, record.create_timestamp.timestamp()
    will_expire = EXPIRES_TAG in run.tags
    if run.status is dg.DagsterRunStatus.QUEUED:
        # However long the queue is, another one would only stand behind it.
        return not will_expire
    if run.status is dg.DagsterRunStatus.NOT_STARTED:
        return not will_expire if now - made < BEGINS else None
    if run.status is dg.DagsterRunStatus.STARTING:
        launched = record.update_timestamp.timestamp()
        return True if now - max(made, launched) < BEGINS else None
    age = now - (record.start_time or made)
    if age < TAKES_LEASE:
        return True
    patience = min(ASKING, until - time.monotonic())
    if patience <= 0:
        return True  # it may be held; and a tick must not wait for a thousand slow answers
    held = _CALLS.within(cluster_key, lambda: is_held(cluster.store(), stream, now), patience)
    if isinstance(held, Exception) and not isinstance(held, ClusterError | NoAnswer):
        raise held
    if held:  # or that can't be told; nor could anything be done
        return True
    return False if age < FOLLOWS else None
