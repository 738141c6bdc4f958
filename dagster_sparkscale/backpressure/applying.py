"""How other limits of a stream get into force: by its record, live, or by a restart. No Dagster.

What is tuned is remembered in the stream's record before anything heeds it, under the lease: a
start that comes in between, whoever's it is, has it. A start that fails on it goes back.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dagster_sparkscale.backpressure.aims import How
from dagster_sparkscale.backpressure.looking import Looked, Request
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.overtaking import Holder
from dagster_sparkscale.clusters.requests import NotDone, Refused, newest_now
from dagster_sparkscale.clusters.store import Record, Tuning
from dagster_sparkscale.clusters.tuned import MAX_RATE_LIVE, without
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.reconcile import reconcile

CAUSE = "retune"
"""In the history of submissions."""
FOLLOW = 60.0
"""Seconds for which a driver with other limits is followed, or until its first batch is through."""
_POLL = 0.5


@dataclass(frozen=True)
class Story:
    """What happened. The run's page is made of this."""

    driver: Driver | None
    """The newest one now; None: none is known."""
    how: How
    seconds: float
    verify_at: float | None
    """Seconds since the epoch; None: it is not verified."""
    notes: tuple[str, ...] = ()


def unchanged(record: Record, tuning: Tuning | None, stream: str) -> None:
    """Make sure that nobody has tuned the stream in the meantime.

    Raises:
        Refused: somebody has.
    """
    if record.tuning != tuning:
        whose = record.tuning.by if record.tuning is not None else "nobody"
        raise Refused(
            f"{stream!r} was tuned by {whose or 'a start'} in the meantime: nothing was done"
        )


def with_tuning(record: Record, tuning: Tuning) -> Record:
    """`record` with what was tuned, and with its live limits beside those that others have set."""
    ours = record.tuning.rates if record.tuning is not None else {}
    rates = without(record.rates, ours)
    for source, rate in tuning.rates.items():
        rates = {**(rates or {}), source: {**(rates or {}).get(source, {}), MAX_RATE_LIVE: rate}}
    return replace(record, tuning=tuning, rates=rates)


def apply(
    cluster: ClusterManager,
    stream: Stream,
    request: Request,
    looked: Looked,
    tuning: Tuning,
    how: How,
    holder: Holder,
    tell: Callable[[str], None],
    lease_wait: float,
) -> Story:
    """Have what was tuned, as `how` says.

    Raises:
        Refused: it is not as it was looked at any more; nothing was touched.
        StaleEpoch: another driver runs by now, or it was stopped; nothing was done.
        OperationInProgress: another operation held the stream for longer than `lease_wait`.
        NotDone: the driver did not take it, or a start failed; says what is in force now.
        ClusterError: the cluster manager could not do its part.
    """
    begun = time.monotonic()
    driver = looked.driver
    if how == "restart":
        driver = _restart(cluster, stream, request, looked, tuning, holder, tell, lease_wait)
    else:
        _live(cluster, stream, looked, tuning, holder, lease_wait)
        tell("remembered for the next start" if how == "start" else f"limits set: {tuning.rates}")
    return Story(driver, how, time.monotonic() - begun, tuning.verify_at)


def _live(
    cluster: ClusterManager,
    stream: Stream,
    looked: Looked,
    tuning: Tuning,
    holder: Holder,
    lease_wait: float,
) -> None:
    """Remember what was tuned, and set live limits where they are others.

    Raises:
        NotDone: the driver did not take them: those of before stay in force.
    """
    with cluster.lease(stream.name, holder, wait=lease_wait) as lease:
        cluster.newest_record(looked.driver)
        before = lease.record
        unchanged(before, looked.record.tuning, stream.name)
        after = lease.write(with_tuning(before, tuning))
        if after.rates == before.rates:
            return
        try:
            cluster.set_rates(looked.driver, after.rates or {}, lease=lease)
        except (AgentUnreachable, AgentRefused) as error:
            # It may have taken them all the same, with its answer lost.
            with contextlib.suppress(AgentUnreachable, AgentRefused):
                cluster.set_rates(looked.driver, before.rates or {}, lease=lease)
            lease.write(replace(lease.record, tuning=before.tuning, rates=before.rates))
            raise NotDone(
                f"{stream.name!r}: its driver did not say that it has taken the limits, and what "
                f"was before is remembered: {error}"
            ) from error


def _restart(
    cluster: ClusterManager,
    stream: Stream,
    request: Request,
    looked: Looked,
    tuning: Tuning,
    holder: Holder,
    tell: Callable[[str], None],
    lease_wait: float,
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
            holder=holder,
            restart=True,
            cause=CAUSE,
            epoch=looked.driver.epoch,
            owner=request.owner,
            lease_wait=lease_wait,
            remember=remember,
        )
        tell(f"driver {outcome.driver.epoch} was started with these limits")
        _follow(cluster, outcome.driver)
        return outcome.driver
    except ClusterError as error:
        if not _is_set(cluster, stream.name, tuning, error):
            raise  # nothing was touched
        _refuse_while_it_lives(cluster, looked.driver, error)
        tell(f"a start with these limits failed, those of before are put back: {error}")
        why = " ".join(str(error).split())[:300]
        said = f"{stream.name!r}: a start with these limits failed, and those of before are "
        try:
            _go_back(cluster, stream, request, before, tuning, why, holder, lease_wait)
        except ClusterError as again:
            raise NotDone(
                f"{said}remembered, but a start with them failed too: {again}. The first one "
                f"failed of: {error}"
            ) from error
        raise NotDone(f"{said}in force again. It failed of: {error}") from error


def _is_set(cluster: ClusterManager, stream: str, tuning: Tuning, error: ClusterError) -> bool:
    """Whether it is remembered by now.

    Raises:
        NotDone: that can't be told.
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
        NotDone: one has come after `old`, and lives, or may.
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


def start_again(
    cluster: ClusterManager,
    stream: Stream,
    request: Request,
    failed: Driver,
    holder: Holder,
    tell: Callable[[str], None],
    lease_wait: float,
) -> Story:
    """Start a stream that has failed of what was tuned, with what is remembered by now. Its
    recovery may have given up, and would leave it so.

    Raises:
        StaleEpoch: another driver has come since, or it was stopped.
        OperationInProgress: another operation held the stream for longer than `lease_wait`.
        ClusterError: it could not be started.
    """
    begun = time.monotonic()
    outcome = reconcile(
        cluster,
        stream,
        holder=str(holder),  # it has begun: nothing overtakes its end
        cause=CAUSE,
        epoch=failed.epoch,
        unless_stopped=True,
        owner=request.owner,
        lease_wait=lease_wait,
    )
    if outcome.reason is not None:
        tell(outcome.reason)
        return Story(failed, "start", time.monotonic() - begun, None)
    tell(f"driver {outcome.driver.epoch} was started with them")
    return Story(outcome.driver, "restart", time.monotonic() - begun, None)


def _follow(cluster: ClusterManager, driver: Driver) -> None:
    """Wait until a batch of the driver is through, or nothing is to be waited for any more.

    Raises:
        NotDone: it has ended by itself.
    """
    deadline = time.monotonic() + FOLLOW
    while time.monotonic() < deadline:
        newest = newest_now(cluster, driver)
        if newest is None or newest.epoch != driver.epoch:
            return
        if newest.state is DriverState.FAILED:
            raise NotDone(
                f"driver {newest.epoch} ended before its first batch was through "
                f"({newest.exit_reason}). Its last log lines:\n{cluster.logs(newest, 40)}"
            )
        if newest.state is DriverState.STOPPED:
            return
        try:
            status = cluster.status(newest)
        except ClusterError:
            status = None
        if status is not None and any(not batch.failed for batch in status.batches):
            return
        time.sleep(_POLL)


def _go_back(
    cluster: ClusterManager,
    stream: Stream,
    request: Request,
    before: Record,
    tuning: Tuning,
    why: str,
    holder: Holder,
    lease_wait: float,
) -> None:
    """Remember what was in force before, and start a driver with it where none runs.

    Raises:
        ClusterError: none could be started.
    """
    holder = str(holder)  # it has begun: nothing overtakes its end
    with cluster.lease(stream.name, holder, wait=lease_wait) as lease:
        if lease.record.tuning != tuning:
            return  # somebody has seen to it
        back = before.tuning or Tuning({}, by="", at=0.0, declared=tuning.declared)
        if not tuning.by_hand:  # by itself it is not tried again soon; what a person tries is gone
            back = replace(
                back,
                at=time.time(),
                by=request.id,
                verify_at=None,
                put_back=True,
                outcome=f"put back: a start failed: {why}",
            )
        lease.write(with_tuning(lease.record, back))
        if lease.record.desired == "stopped":
            return
    reconcile(  # attaches to one that runs by now
        cluster,
        stream,
        holder=holder,
        cause=CAUSE,
        unless_stopped=True,
        lease_wait=lease_wait,
    )
