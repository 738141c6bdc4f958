"""The way back where a start with other limits has failed: those of before, and a driver with them.
No Dagster.

A driver that lives keeps what it was started with: nothing is put back behind its back.
"""

import time
from dataclasses import replace
from typing import NoReturn

from dagster_sparkscale.backpressure.preflight import Looked
from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Tuning
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.clusters.tuned import with_tuning
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile

CAUSE = "retune"
"""The cause of a start in the history of submissions."""
AGAIN = 600.0
"""Seconds after which it is tried again, at the earliest, to put back what did harm."""


def is_set(cluster: ClusterManager, stream: str, tuning: Tuning, error: ClusterError) -> bool:
    """Whether it is remembered by now.

    Raises:
        NotDone: the cluster does not answer.
    """
    try:
        record = cluster.store().read(stream)
    except ClusterError as unknown:
        raise NotDone(
            f"{stream!r}: whether these limits are set can't be told ({unknown}); if so, they stay "
            f"set. The start with them was not seen through: {error}"
        ) from error
    return record is not None and record.tuning == tuning


def _refuse_while_it_lives(cluster: ClusterManager, old: Driver, error: ClusterError) -> None:
    """What a driver that lives was started with is not put back behind its back.

    Args:
        old: the driver before.
        error: why its start was not seen through.

    Raises:
        NotDone: a driver after `old` lives, or may.
    """
    said = f"{old.stream!r}: these limits stay set: "
    try:
        newest = cluster.find(old.stream)
    except ClusterError as unknown:
        if isinstance(error, NotDone):
            return  # it was seen to end
        raise NotDone(
            f"{said}whether a driver runs with them can't be told ({unknown}). Its start was not "
            f"seen through: {error}"
        ) from error
    if newest is not None and newest.epoch != old.epoch and newest.state.alive:
        raise NotDone(
            f"{said}driver {newest.epoch} has them, though its start was not seen through: {error}"
        ) from error


def go_back(
    cluster: ClusterManager,
    stream: Stream,
    looked: Looked,
    tuning: Tuning,
    error: ClusterError,
    requester: Requester,
) -> NoReturn:
    """Remember what was in force before a start that failed, and start a driver with it where none
    runs.

    Raises:
        NotDone: always; says which limits are in force now.
    """
    requester = requester.has_begun()
    go_on = _remember_back(cluster, stream, looked, tuning, error, requester)
    said = f"{stream.name!r}: a start with these limits failed, and those of before are "
    if tuning.put_back:
        said = (
            f"{stream.name!r}: a start with the limits of before failed, and those that were to be "
            "put back are "
        )
    ending = "remembered; it was stopped in the meantime"
    try:
        if go_on:
            came = reconcile(  # attaches to one that runs by now
                cluster,
                stream,
                requester.about(None),
                Start(cause=CAUSE, unless_stopped=True),
            )
            ending = "in force again" if came.reason is None else ending
    except ClusterError as again:
        raise NotDone(
            f"{said}remembered, but a start with them failed too: {again}. The first one failed "
            f"of: {error}"
        ) from error
    raise NotDone(f"{said}{ending}. It failed of: {error}") from error


def _remember_back(
    cluster: ClusterManager,
    stream: Stream,
    looked: Looked,
    tuning: Tuning,
    error: ClusterError,
    requester: Requester,
) -> bool:
    """Remember what was in force before a start that failed.

    Returns:
        Whether a driver is to be started: not where the stream was stopped in the meantime.

    Raises:
        NotDone: the limits that were tried stay set, or are somebody else's by now.
    """
    before = looked.record.tuning
    try:
        with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
            # Under the lease: a recovery may have started one with them just now.
            _refuse_while_it_lives(cluster, looked.driver, error)
            if lease.record.tuning != tuning:
                raise NotDone(
                    f"{stream.name!r}: a start with these limits failed, and others were set in "
                    f"the meantime. It failed of: {error}"
                ) from error
            now = time.time()
            back = _back(before, requester.name, tuning, " ".join(str(error).split())[:300], now)
            lease.write(with_tuning(lease.record, back))
            return lease.record.desired != "stopped"
    except NotDone:
        raise
    except ClusterError as unable:
        raise NotDone(
            f"{stream.name!r}: these limits stay set, as they could not be put back: {unable}. A "
            f"start with them failed of: {error}"
        ) from error


def _back(before: Tuning | None, by: str, tuning: Tuning, why: str, now: float) -> Tuning:
    """What is remembered once a start with `tuning` has failed of `why`."""
    back = before or Tuning({}, by="", at=0.0, declared=tuning.declared)
    if tuning.by_hand:  # what a person tries is gone
        return back
    if tuning.put_back:
        # What did harm is in force again: it is still to be put back, later and later.
        again = now + max(AGAIN, (now - back.at) / 4)
        said = f"to be put back, and a start with the limits of before failed: {why}"
        return replace(back, verify_at=again, outcome=said)
    # By itself it is not tried again soon.
    said = f"put back: a start failed: {why}"
    return replace(back, at=now, by=by, verify_at=None, put_back=True, outcome=said)
