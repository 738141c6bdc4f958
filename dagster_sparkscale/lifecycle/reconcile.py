"""Starting is reconciling: re-attach to the driver that runs, start one only where none does."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from dagster_sparkscale.clusters import receiver_counts, tuned
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, StaleEpoch
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.owners import identity_of, refuse_anothers
from dagster_sparkscale.clusters.records.starts import attempted, refuse_if_held, refused
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import ask, newest_now
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.recovery import recover
from dagster_sparkscale.observe.status import Status

START_WAIT = 120.0
"""Seconds to wait for the first query of a program that was started."""

STOP_TIMEOUT = 120.0
"""Seconds that a driver has to end gracefully where a restart stops it."""

_POLL = 0.5
_LOG_LINES = 40


class Action(Enum):
    STARTED = "started"
    ATTACHED = "attached"
    RESTARTED = "restarted"
    HELD = "held"


class StartFailed(ClusterError):
    """The driver ended before its program ran; the text has the last lines of its log."""


@dataclass(frozen=True)
class Outcome:
    action: Action
    driver: Driver
    status: Status | None
    """The agent's last answer; None if it gave none in time."""
    seconds: float
    """From the request until the program's first query was seen, or until waiting ended."""
    reason: str | None = None
    """Why it was held; None if it was not."""
    dropped: tuple[str, ...] = ()
    """What was set and does not stand any more, or not yet, a line each."""


def reconcile(
    cluster: ClusterManager,
    stream: Stream,
    *,
    holder: Holder,
    restart: bool = False,
    cause: str = "manual",
    epoch: int | None = None,
    failed_epoch: int | None = None,
    unless_stopped: bool = False,
    owner: str = "",
    whoever: bool = False,
    lease_wait: float = 60.0,
    settings: Mapping[str, str] | None = None,
    start_wait: float | None = None,
    remember: Callable[[Record], Record] | None = None,
    ended: Callable[[Record, Driver], tuple[Record, str]] | None = None,
    stop_timeout: float = STOP_TIMEOUT,
) -> Outcome:
    """Make sure that exactly one driver of `stream` runs.

    A new driver is followed for `start_wait` seconds or until its first query runs and nothing of
    its queries' state is being changed any more. Running out of them is no failure: a program may
    take its time.

    Args:
        holder: who asks, and when that was.
        restart: stop a running driver gracefully and start a new one. Cut off in the middle, it is
            completed by recovery.
        cause: what goes into the history of submissions.
        epoch: the driver that this was asked about: nothing is done where another has come after
            it, or where it was stopped since. None: whichever is there.
        failed_epoch: start only if this is still the newest driver, it has failed, and its
            recovery says so.
        unless_stopped: whether nothing is done where the stream was asked to stop.
        owner: who declares the stream: told from it once it is not declared any more.
        whoever: take the stream over where another code location has started it.
        lease_wait: seconds to wait for an operation in progress to end.
        settings: Spark settings of this one start, over all others; a later one has none of them.
        start_wait: seconds; None: `START_WAIT`.
        remember: what is to be remembered of the stream from then on: asked once it is certain that
            there is to be a new driver, before the old one is touched. None: what is.
        ended: what is to be remembered of the stream from then on, and the cause of the start, by
            how the driver before has ended: asked between its end and the start. None: what is.
        stop_timeout: seconds that the old driver has to end gracefully.

    Raises:
        Overtaken: a later request was carried out before this one; nothing was done.
        OperationInProgress: another operation held the stream for longer than `lease_wait`.
        Anothers: another code location has started a stream of that name, which is not this one.
        StartFailed: the driver ended at once.
        StaleEpoch: `failed_epoch` was given and no driver is known; or `epoch`, and it is not the
            newest, or was stopped.
        ClusterError: the cluster manager could not do its part.
    """
    begun = time.monotonic()
    with cluster.lease(stream.name, holder, wait=lease_wait) as lease:
        if not whoever:
            refuse_anothers(lease.record, stream, owner)
        _remember_whose(lease, stream, owner)
        driver = cluster.find(stream.name)
        if epoch is not None:
            _refuse_another(stream.name, epoch, driver)
        if driver is None and failed_epoch is not None:
            raise StaleEpoch(
                f"{stream.name!r}: driver {failed_epoch} failed, but the cluster manager knows no "
                "driver of it any more; nothing was done: materialize its asset to start it"
            )
        if driver is not None and failed_epoch is not None:
            if driver.epoch != failed_epoch or driver.state is not DriverState.FAILED:
                return Outcome(Action.ATTACHED, driver, None, time.monotonic() - begun)
            # Others may have tried it while this one waited: their pauses hold for it as well.
            decision = recover(stream.recovery, driver, lease.record.history, time.time())
            if isinstance(decision, Hold):
                seconds = time.monotonic() - begun
                return Outcome(Action.HELD, driver, None, seconds, decision.reason)
        if driver is not None and unless_stopped and lease.record.asked_to_stop_at is not None:
            reason = f"{stream.name!r} was asked to stop: materialize it to start it"
            return Outcome(Action.HELD, driver, None, time.monotonic() - begun, reason)
        action = Action.RESTARTED if driver is not None and restart else Action.STARTED
        if driver is not None and driver.state.alive:
            if not restart:
                _wish_it_to_run(lease)
                return Outcome(
                    Action.ATTACHED, driver, ask(cluster, driver), time.monotonic() - begun
                )
            # What would keep the new driver from being launched is found while the old one runs.
            cluster.check(stream)
            refuse_if_held(stream.name, lease.record)
            _remember(lease, remember)
            driver = cluster.stop(driver, lease, timeout=stop_timeout, to_restart=True)
        else:
            _remember(lease, remember)
        if failed_epoch is not None:
            # Before anything can go wrong: what never comes to a launch counts as well.
            lease.write(attempted(lease.record, time.time()))
        if ended is not None and driver is not None:
            record, cause = ended(lease.record, driver)
            _write(lease, record)
        dropped = _drop_what_was_tuned(lease, stream)
        dropped += _count_receivers(lease, stream, driver)
        try:
            driver = cluster.submit(stream, lease, cause=cause, settings=settings)
        except Exception as error:
            _remember_why(lease, error)
            raise
    # The lease is given back: a start that takes long must not keep anybody from stopping it.
    patience = START_WAIT if start_wait is None else start_wait
    driver, status = _wait_for_first_query(cluster, driver, begun + patience)
    return Outcome(action, driver, status, time.monotonic() - begun, dropped=dropped)


def _remember(lease: Lease, what: Callable[[Record], Record] | None) -> None:
    if what is not None:
        lease.write(what(lease.record))


def _drop_what_was_tuned(lease: Lease, stream: Stream) -> tuple[str, ...]:
    """Forget what was tuned of limits that are declared otherwise by now; a line each."""
    record, lines = tuned.at_start(lease.record, stream, time.time())
    _write(lease, record)
    return lines


def _count_receivers(lease: Lease, stream: Stream, before: Driver | None) -> tuple[str, ...]:
    """Have as many receivers as are declared by now, where that can be; what changes, a line
    each."""
    drained = before.drained if before is not None else None
    record, lines = receiver_counts.at_start(lease.record, stream, drained)
    _write(lease, record)
    return lines


def _write(lease: Lease, record: Record) -> None:
    if record != lease.record:
        lease.write(record)


def _refuse_another(stream: str, epoch: int, newest: Driver | None) -> None:
    if newest is not None and newest.epoch == epoch and newest.state is not DriverState.STOPPED:
        return
    now = "none is known any more"
    if newest is not None:
        now = f"driver {newest.epoch} is {newest.state.value} now"
    raise StaleEpoch(f"{stream!r}: this was asked for driver {epoch}, and {now}; nothing was done")


def _wish_it_to_run(lease: Lease) -> None:
    """A stop may have said its wish and then failed: the end of what runs would be none."""
    record = lease.record
    if record.desired != "running":
        record = replace(record, desired="running", desired_since=time.time())
    lease.write(record)  # in any case: it notes when that was asked for


def _remember_why(lease: Lease, error: Exception) -> None:
    """For the tick and the checks: of a run that failed nobody there knows."""
    with contextlib.suppress(ClusterError):  # what it failed of is told, not what comes of telling
        if (told := refused(lease.record, str(error) or repr(error))) != lease.record:
            lease.write(told)


def _remember_whose(lease: Lease, stream: Stream, owner: str) -> None:
    record = lease.record
    now = replace(
        record,
        owner=owner or record.owner,
        asset=(*stream.key_prefix, stream.name),
        identity=identity_of(stream),
    )
    _write(lease, now)


def _wait_for_first_query(
    cluster: ClusterManager, submitted: Driver, deadline: float
) -> tuple[Driver, Status | None]:
    driver, status = submitted, None
    while True:
        status = ask(cluster, driver) if driver.agent_url else None
        if status is not None and not status.reconfiguring and _queries_run(status):
            return driver, status
        driver = newest_now(cluster, driver) or driver
        if driver.epoch != submitted.epoch or driver.state is DriverState.STOPPED:
            return driver, status
        if driver.state is DriverState.FAILED:
            raise StartFailed(
                f"driver {driver.epoch} of {driver.stream!r} ended before its first query "
                f"({driver.exit_reason}). Its last log lines:\n{cluster.logs(driver, _LOG_LINES)}"
            )
        if time.monotonic() >= deadline:
            return driver, status
        time.sleep(_POLL)


def _queries_run(status: Status) -> bool:
    return any(query.active for query in status.queries)
