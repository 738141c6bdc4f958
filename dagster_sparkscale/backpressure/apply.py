"""How other limits of a stream get into force: by its record, live, or by a restart. No Dagster.

What is tuned is remembered in the stream's record before anything heeds it, under the lease: a
start that comes in between, whoever's it is, has it. A start that fails on it goes back.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dagster_sparkscale.backpressure.fallback import CAUSE, go_back, is_set
from dagster_sparkscale.backpressure.plan import How
from dagster_sparkscale.backpressure.preflight import Preflight
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.clusters.requests import NotDone, Refused, end_of_log
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.live_limits import SetRates
from dagster_sparkscale.in_force.tuned import with_tuning
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.observe.status import Status

FOLLOW = 60.0
"""Seconds for which a driver with other limits is followed, or until its first batch is through."""


@dataclass(frozen=True)
class Applied:
    """What happened. The run's page is made of this."""

    driver: Driver | None
    """The newest one now; None: none is known."""
    how: How
    seconds: float
    verify_at: float | None
    """Seconds since the epoch; None: it is not verified."""


def unchanged(record: Record, tuning: Tuning | None, stream: str) -> None:
    """Make sure that nobody has tuned the stream in the meantime.

    Raises:
        Refused: somebody has tuned it since.
    """
    if record.tuning != tuning:
        whose = record.tuning.by if record.tuning is not None else "nobody"
        raise Refused(
            f"{stream!r} was tuned by {whose or 'a start'} in the meantime: nothing was done"
        )


def apply(
    cluster: ClusterManager,
    stream: Stream,
    looked: Preflight,
    tuning: Tuning,
    how: How,
    requester: Requester,
) -> Applied:
    """Have what was tuned, as `how` says.

    Raises:
        Refused: the stream has changed since the plan was made; nothing was touched.
        StaleEpoch: another driver runs by now, or it was stopped; nothing was done.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        NotDone: the driver did not take it, or a start failed; says what is in force now.
        ClusterError: the cluster manager could not do its part.
    """
    begun = time.monotonic()
    driver = looked.driver
    if how == "restart":
        driver = _restart(cluster, stream, looked, tuning, requester)
    else:
        _live(cluster, stream, looked, tuning, requester)
        done = "remembered for the next start" if how == "start" else f"limits set: {tuning.rates}"
        requester.tell(done)
    return Applied(driver, how, time.monotonic() - begun, tuning.verify_at)


def _live(
    cluster: ClusterManager, stream: Stream, looked: Preflight, tuning: Tuning, requester: Requester
) -> None:
    """Remember what was tuned, and set live limits where they are others.

    Raises:
        NotDone: the driver did not take them: those of before stay in force.
    """
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        cluster.newest_record(looked.driver)
        before = lease.record
        unchanged(before, looked.record.tuning, stream.name)
        after = lease.write(with_tuning(before, tuning))
        if after.rates == before.rates:
            return
        try:
            cluster.change(looked.driver, SetRates(after.rates or {}), lease=lease)
        except (AgentUnreachable, AgentRefused) as error:
            # It may have taken them all the same, with its answer lost.
            with contextlib.suppress(AgentUnreachable, AgentRefused):
                cluster.change(looked.driver, SetRates(before.rates or {}), lease=lease)
            lease.write(replace(lease.record, tuning=before.tuning, rates=before.rates))
            raise NotDone(
                f"{stream.name!r}: its driver did not say that it has taken the limits, and what "
                f"was before is remembered: {error}"
            ) from error


def _restart(
    cluster: ClusterManager, stream: Stream, looked: Preflight, tuning: Tuning, requester: Requester
) -> Driver:
    """Start a driver with what was tuned, and see its first batch through.

    Raises:
        NotDone: it ended before that, and one with the limits of before was started; or it lives,
            and what it has stays set.
    """
    before = looked.record

    def remember(record: Record) -> Record:
        unchanged(record, before.tuning, stream.name)
        return with_tuning(record, tuning)

    try:
        outcome = reconcile(
            cluster,
            stream,
            requester.about(looked.driver.epoch),
            Start(restart=True, cause=CAUSE, remember=remember),
        )
        requester.tell(f"driver {outcome.driver.epoch} was started with these limits")
        _follow(cluster, outcome.driver, requester.tell)
        return outcome.driver
    except ClusterError as error:
        if not is_set(cluster, stream.name, tuning, error):
            raise  # nothing was touched
        requester.tell(f"a start with these limits failed, those of before are put back: {error}")
        go_back(cluster, stream, looked, tuning, error, requester)


def start_again(
    cluster: ClusterManager, stream: Stream, failed: Driver, requester: Requester
) -> Applied:
    """Start a stream that has failed of what was tuned, with what is remembered by now. Its
    recovery may have given up, and would leave it so.

    Raises:
        StaleEpoch: another driver has come since, or it was stopped.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        ClusterError: the driver could not be started.
    """
    begun = time.monotonic()
    outcome = reconcile(
        cluster,
        stream,
        requester.has_begun().about(failed.epoch),
        Start(cause=CAUSE, unless_stopped=True),
    )
    if outcome.reason is not None:
        requester.tell(outcome.reason)
        return Applied(failed, "start", time.monotonic() - begun, None)
    requester.tell(f"driver {outcome.driver.epoch} was started with them")
    return Applied(outcome.driver, "restart", time.monotonic() - begun, None)


def _follow(cluster: ClusterManager, driver: Driver, tell: Callable[[str], None]) -> None:
    """Wait until a batch of the driver is through, or nothing is to be waited for any more.

    Raises:
        NotDone: the driver has ended by itself.
    """

    def through(_driver: Driver, status: Status | None) -> bool:
        return status is not None and any(not batch.failed for batch in status.batches)

    came = trial.follow(cluster, driver, time.monotonic() + FOLLOW, through)
    newest = came.driver
    if newest.epoch == driver.epoch and newest.state is DriverState.FAILED:
        raise NotDone(
            f"driver {newest.epoch} ended before its first batch was through "
            f"({newest.exit_reason}). {end_of_log(cluster, newest)}"
        )
    if came.ending == "out of time":
        tell(f"driver {newest.epoch} has completed no batch in {FOLLOW:g} s: it keeps these limits")
