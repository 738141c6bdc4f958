"""Starting is reconciling: re-attach to the driver that runs, start one only where none does."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, StaleEpoch
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.owners import identity_of, refuse_anothers
from dagster_sparkscale.clusters.records.starts import attempted, refuse_if_held, refused
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import ask, end_of_log, newest_now
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force import lineage
from dagster_sparkscale.in_force.parts import at_start, pinned, remembered_settings
from dagster_sparkscale.in_force.slots import out_of_reach
from dagster_sparkscale.in_force.steering import in_force, refuse_if_barred
from dagster_sparkscale.lifecycle.recovery import failed, recover
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.remedy import Remedy, WithRemedy

START_WAIT = 120.0
"""Seconds to wait for the first query of a program that was started."""

STOP_TIMEOUT = 120.0
"""Seconds that a driver has to end gracefully where a restart stops it."""

_POLL = 0.5


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
    seconds: float = 0.0
    """Seconds from the request until the program's first query ran, or until waiting ended."""
    reason: str | None = None
    """Why it was held; None if it was not."""
    dropped: tuple[str, ...] = ()
    """What was set and does not stand any more, or not yet, a line each."""
    launched: int | None = None
    """The epoch of the driver that this start has launched; another one may have come after it by
    now, and be `driver`. None: it has launched none."""


@dataclass(frozen=True)
class Start:
    """What is wanted of a start, besides that one driver runs."""

    restart: bool = False
    """Whether a running driver is stopped gracefully and a new one started. Cut off in the middle,
    that is completed by recovery."""
    cause: str = "manual"
    """What goes into the history of submissions."""
    failed_epoch: int | None = None
    """Start only if this is still the newest driver, it has failed, and its recovery says so."""
    unless_stopped: bool = False
    """Whether nothing is done where the stream was asked to stop."""
    unless_barred: bool = False
    """Whether nothing is done where the stream is frozen, or only advised."""
    takes_over: bool = False
    """Whether the stream is taken over where another code location has started it."""
    settings: Mapping[str, str] | None = None
    """Spark settings of this one start, over all others; a later one has none of them."""
    remember: Callable[[Record], Record] | None = None
    """What is to be remembered of the stream from then on: asked once it is certain that there is
    to be a new driver, before the old one is touched. None: what is."""
    ended: Callable[[Record, Driver], tuple[Record, str]] | None = None
    """What is to be remembered of the stream from then on, and the cause of the start, by how the
    driver before has ended: asked between its end and the start. None: what is."""
    stop_timeout: float = STOP_TIMEOUT
    """Seconds that the old driver has to end gracefully."""
    start_wait: float | None = None
    """Seconds to wait for the first query; None: `START_WAIT`."""


def reconcile(
    cluster: ClusterManager, stream: Stream, requester: Requester, start: Start | None = None
) -> Outcome:
    """Make sure that exactly one driver of `stream` runs.

    A new driver is followed for `start.start_wait` seconds or until its first query runs and
    nothing of its queries' state is being changed any more. Running out of them is no failure: a
    program may take its time. Nothing is done where another driver has come after the one that
    `requester` asks about, or where that was stopped since.

    Raises:
        Overtaken: a later request was carried out before this one, or `start.unless_barred` is set
            and the stream is barred; nothing was done.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        Anothers: another code location has started a stream of that name, which is not this one.
        StartFailed: the driver ended at once.
        StaleEpoch: `failed_epoch` was given and no driver is known; or the requester's epoch is
            not of the newest driver, or that was stopped.
        ClusterError: the cluster manager could not do its part.
    """
    begun, start = time.monotonic(), start or Start()
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        if not start.takes_over:
            refuse_anothers(lease.record, stream, requester.owner)
        if start.unless_barred:
            refuse_if_barred(in_force(lease.record, stream, time.time()))
        _remember_whose(lease, stream, requester.owner)
        before = cluster.find(stream.name)
        as_it_is = _attach_or_hold(cluster, stream, lease, before, requester.epoch, start)
        if as_it_is is not None:
            return replace(as_it_is, seconds=time.monotonic() - begun)
        ended = _end(cluster, stream, lease, before, start)
        cause = _note_attempt(lease, ended, start)
        dropped = _remember_parts(lease, stream, ended)
        driver = _launch(cluster, stream, lease, cause, start.settings)
        launched = driver.epoch
    # The lease is given back: a start that takes long must not keep anybody from stopping it.
    patience = START_WAIT if start.start_wait is None else start.start_wait
    driver, status = _wait_for_first_query(cluster, driver, begun + patience)
    action = Action.RESTARTED if ended is not None and start.restart else Action.STARTED
    seconds = time.monotonic() - begun
    return Outcome(action, driver, status, seconds, dropped=dropped, launched=launched)


def _attach_or_hold(
    cluster: ClusterManager,
    stream: Stream,
    lease: Lease,
    newest: Driver | None,
    epoch: int | None,
    start: Start,
) -> Outcome | None:
    """What it comes to where no driver is to be started; None: one is.

    Raises:
        StaleEpoch: the request was about another driver.
    """
    if epoch is not None:
        _refuse_another(stream.name, epoch, newest)
    if newest is None:
        if start.failed_epoch is None:
            return None
        gone = (
            f"{stream.name!r}: driver {start.failed_epoch} failed, but the cluster manager knows "
            "no driver of it any more; nothing was done: "
        )
        raise StaleEpoch(WithRemedy(gone, Remedy.START))
    if start.failed_epoch is not None:
        if newest.epoch != start.failed_epoch or newest.state is not DriverState.FAILED:
            return Outcome(Action.ATTACHED, newest, None)
        # Others may have tried it while this one waited: their pauses hold for it as well.
        hopeless = out_of_reach(stream, newest)
        decision = recover(
            *(stream.recovery, newest, lease.record.history, time.time()), hopeless=hopeless
        )
        if isinstance(decision, Hold):
            return Outcome(Action.HELD, newest, None, reason=decision.reason)
    if start.unless_stopped and lease.record.asked_to_stop_at is not None:
        reason = f"{stream.name!r} was asked to stop: materialize it to start it"
        return Outcome(Action.HELD, newest, None, reason=reason)
    if newest.state.alive and not start.restart:
        _wish_it_to_run(lease)
        return Outcome(Action.ATTACHED, newest, ask(cluster, newest))
    return None


def _end(
    cluster: ClusterManager, stream: Stream, lease: Lease, before: Driver | None, start: Start
) -> Driver | None:
    """The driver before, which has ended by then; `start.remember` is heeded before it is touched.

    Raises:
        ClusterError: a new driver could not be launched, or the old one not be ended.
    """
    runs = before is not None and before.state.alive
    if runs:
        # What would keep the new driver from being launched is found while the old one runs.
        cluster.check(stream)
        refuse_if_held(stream.name, lease.record)
    if start.remember is not None:
        lease.write(start.remember(lease.record))
    if before is None or not runs:
        return before
    return cluster.stop(before, lease, timeout=start.stop_timeout, to_restart=True)


def _note_attempt(lease: Lease, ended: Driver | None, start: Start) -> str:
    """Remember what is to be before the launch; returns its cause."""
    if start.failed_epoch is not None:
        # Before anything can go wrong: what never comes to a launch counts as well.
        lease.write(attempted(lease.record, time.time(), failed(ended) if ended else ""))
    if start.ended is None or ended is None:
        return start.cause
    record, cause = start.ended(lease.record, ended)
    _write(lease, record)
    return cause


def _remember_parts(lease: Lease, stream: Stream, ended: Driver | None) -> tuple[str, ...]:
    """Bring what is remembered of the stream's parts in line with what is declared by now; what
    changes by that, a line each."""
    now = time.time()
    drained, lacked = (None, None) if ended is None else (ended.drained, ended.slots)
    record, lines = at_start(lease.record, stream, now, drained, lacked)
    record = lineage.at_start(record, ended, now)
    _write(lease, record)
    return lines


def _launch(
    cluster: ClusterManager,
    stream: Stream,
    lease: Lease,
    cause: str,
    settings: Mapping[str, str] | None,
) -> Driver:
    """Start the new driver, and remember why where that fails."""
    try:
        begins_with = {**remembered_settings(stream, lease.record), **(settings or {})}
        return cluster.submit(stream, lease, cause, begins_with, pinned(stream, lease.record))
    except Exception as error:
        _remember_why(lease, error)
        raise


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
    """Remember why the start was refused, for ticks and checks: they know nothing of a failed
    run."""
    # What it failed of is raised, not what noting that comes to.
    with contextlib.suppress(ClusterError):
        _write(lease, refused(lease.record, str(error) or repr(error)))


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
                f"({driver.exit_reason}). {end_of_log(cluster, driver)}"
            )
        if time.monotonic() >= deadline:
            return driver, status
        time.sleep(_POLL)


def _queries_run(status: Status) -> bool:
    return any(query.active for query in status.queries)
