"""One change of state partitions: what is asked for, what is refused, what came of it. No Dagster.

The driver changes the state itself: in place, while it runs, or before its program starts the
queries, so that a change is a restart with a plan. Either is followed. The lease is held for the
request or the restart alone. What a driver has begun, the next start undoes or closes, whoever
starts it: so nothing is held while it goes on.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    Held,
    OperationInProgress,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.settings import PLAN
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.lifecycle.reconcile import STOP_TIMEOUT, Start, reconcile
from dagster_sparkscale.observe.status import Reconfiguration, Status
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.state.follow import Following, in_words, listed
from dagster_sparkscale.state.in_place import Came, change_in_place
from dagster_sparkscale.state.partition_change import PartitionChange
from dagster_sparkscale.state.plan import GOOD, Aim, Asked, Barred, Settled, aim

CAUSE = "reconfigure state"
"""The cause of a start in the history of submissions."""
_ANSWERS = 10.0
"""Seconds that the agent has to answer."""


@dataclass(frozen=True)
class ReconfigureRequest:
    asked: Asked
    id: str
    """The id of the plan."""
    within: float
    """Seconds that all of it may take."""


@dataclass(frozen=True)
class Reconfigured:
    """What happened. The run's page is made of this."""

    change: PartitionChange
    driver: Driver
    """The driver that runs now."""
    results: tuple[Reconfiguration, ...]
    seconds: float
    """Seconds from the request until the first batches were through."""
    notes: tuple[str, ...] = ()


def look(
    cluster: ClusterManager, stream: Stream, asked: Asked, *, id: str
) -> tuple[Driver | None, Aim]:
    """The stream's newest driver, and what is to be done about its state.

    Args:
        id: of the plan.

    Raises:
        ClusterError: the cluster manager can't be asked.
    """
    driver = cluster.find(stream.name)
    status: Status | None = None
    if driver is not None and driver.state.alive:
        with suppress(AgentUnreachable, AgentRefused):
            status = cluster.status(driver, timeout=_ANSWERS)
    if status is not None and driver is not None and status.epoch != driver.epoch:
        status = None
    return driver, aim(stream, driver, status, asked, id=id, now=time.time())


def reconfigure(
    cluster: ClusterManager, stream: Stream, request: ReconfigureRequest, requester: Requester
) -> Reconfigured | Settled:
    """Carry out `request`, and follow it until the stream is through.

    Raises:
        Refused: the change can't be made, or not now; the stream was not touched.
        StaleEpoch: another driver runs by now, or it was stopped; nothing was done.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        NotDone: a query does not have the number that was planned.
        OutOfTime: `request.within` is over; the driver goes on.
        ClusterError: the cluster manager could not do its part.
    """
    begun, tell = time.monotonic(), requester.tell
    driver, found = look(cluster, stream, request.asked, id=request.id)
    _check_epoch(stream, driver, requester)
    if isinstance(found, Barred):
        raise Refused(found.why)
    if isinstance(found, Settled):
        return found
    assert driver is not None
    for line in found.lines:
        tell(line)
    queries = [each.query for each in found.queries]
    deadline, beside = begun + request.within, found.way.beside
    following = Following(cluster, request.id, queries, tell, deadline, beside)
    within = max(STOP_TIMEOUT, min(2 * found.longest, request.within))
    notes: tuple[str, ...] = ()
    came = Came(driver, found.way.why, found.plan, asked=False)
    if found.way.in_place:
        came = change_in_place(cluster, stream, found, driver, requester, following, within)
        if came.restart is not None:
            notes = (f"{came.restart}; so by a restart of the driver",)
            tell(notes[0])
        requester = requester.has_begun() if came.asked else requester
    new = now = came.driver
    if came.restart is not None:
        decided = requester.decided and not came.asked  # what has begun comes to an end
        new = _restart(cluster, stream, came.plan, driver, requester, within, decided)
        tell(f"driver {new.epoch} was started, {time.monotonic() - begun:.1f} s after")
        now = following.until_through(new)
    elif now.epoch != driver.epoch or not now.state.alive:
        new = driver
    cut = ""
    if now.epoch != new.epoch or not now.state.alive:
        cut = _cut(new, now)
        tell(cut)
        now = _through_without_the_plan(cluster, stream, now, requester, following, cut)
        notes = (*notes, f"{cut}; driver {now.epoch} went on from there")
    if why := _faults(following):
        cut_off = f"{cut}. " if cut else ""
        raise NotDone(f"{cut_off}{why}. {_what_runs(now, following)}")
    results = tuple(following.results[each] for each in sorted(following.results))
    notes = (*notes, *(_without_more(each) for each in results if each.lacked is not None))
    return Reconfigured(found, now, results, time.monotonic() - begun, notes)


def _check_epoch(stream: Stream, driver: Driver | None, requester: Requester) -> None:
    """
    Raises:
        StaleEpoch: the driver that the requester asked for is not the stream's newest any more.
    """
    if requester.epoch is not None and (driver is None or driver.epoch != requester.epoch):
        runs = f"driver {driver.epoch} has come" if driver else "nothing is known of it"
        raise StaleEpoch(
            f"{stream.name!r}: this was asked for driver {requester.epoch}, and {runs} since; "
            "nothing was done"
        )


def _without_more(each: Reconfiguration) -> str:
    lacked = "the executors more that are declared"
    return f"query {each.query!r} was changed without {lacked}: {each.lacked}"


def _restart(
    cluster: ClusterManager,
    stream: Stream,
    plan: StatePlan | None,
    driver: Driver,
    requester: Requester,
    within: float,
    decided: bool,
) -> Driver:
    """Have a new driver come with the plan, if there is one; it may have ended already.

    Args:
        within: seconds that the old driver has to end.
        decided: whether nothing is done where the stream is frozen by now, or advised only.

    Raises:
        Overtaken: it is.
    """
    try:
        outcome = reconcile(
            cluster,
            stream,
            requester.about(driver.epoch),
            Start(
                restart=True,
                unless_barred=decided,
                cause=CAUSE,
                settings=None if plan is None else {PLAN: plan.to_json()},
                stop_timeout=within,
                start_wait=0.0,  # it is followed here, step by step
            ),
        )
    except StaleEpoch:
        newest = cluster.find(stream.name)
        if plan is None and newest is not None and newest.state.alive:
            return newest  # the old one has ended of itself, and recovery was faster
        raise
    except (OperationInProgress, Held):
        raise
    except ClusterError:
        newest = cluster.find(stream.name)
        if newest is None or newest.epoch == driver.epoch:
            raise
        return newest
    return outcome.driver


def _cut(with_plan: Driver, now: Driver) -> str:
    """How the driver with the plan ended before it was through.

    Raises:
        NotDone: somebody has stopped the stream, or another driver has its checkpoint.
    """
    if now.state is DriverState.STOPPED:
        stopped = (
            f"driver {now.epoch} was stopped in the middle of it. What was begun is undone or "
            "closed by the next start: "
        )
        raise NotDone(WithRemedy(stopped, Remedy.START))
    if now.fenced:
        # As for recovery: the next one would be refused too, or take from another what it works on.
        raise NotDone(
            WithRemedy(
                f"driver {now.epoch} ended, as it may not have its checkpoint: {now.exit_reason}; ",
                Remedy.START_ONCE_SETTLED,
                ": the start undoes or closes what was begun",
            )
        )
    if now.epoch != with_plan.epoch:
        return f"driver {with_plan.epoch} ended in the middle of it, and driver {now.epoch} came"
    return f"driver {now.epoch} ended in the middle of it ({now.exit_reason})"


def _through_without_the_plan(
    cluster: ClusterManager,
    stream: Stream,
    now: Driver,
    requester: Requester,
    following: Following,
    cut: str,
) -> Driver:
    """A driver that has undone or closed what was begun, and runs.

    Raises:
        NotDone: there is none.
    """
    now = _without_the_plan(cluster, stream, now, requester, cut)
    ended = following.until_through(now)
    if ended.epoch != now.epoch or not ended.state.alive:
        raise NotDone(
            f"{cut}; driver {now.epoch}, which was to undo or close that, has ended as well "
            f"({ended.exit_reason}). Nothing of it is lost: the next start does it, as by the "
            f"stream's recovery. {listed(following.results.values())}"
        )
    return now


def _without_the_plan(
    cluster: ClusterManager, stream: Stream, now: Driver, requester: Requester, cut: str
) -> Driver:
    """A driver that undoes or closes what was begun: one that has come meanwhile, or a new one."""
    if now.state.alive:
        return now
    try:
        return reconcile(
            cluster,
            stream,
            requester.has_begun().about(now.epoch),
            Start(cause=CAUSE, start_wait=0.0),
        ).driver
    except StaleEpoch:
        newest = cluster.find(stream.name)
        if newest is not None and newest.state.alive:
            return newest
        raise NotDone(f"{cut}, and was stopped since: the next start undoes it") from None
    except ClusterError as error:
        newest = cluster.find(stream.name)
        if newest is not None and newest.epoch != now.epoch:
            return newest  # it has ended already
        what = (
            f"{cut}, and none could be started to undo what was begun; the next start does it. It "
            "failed of: "
        )
        raise NotDone(WithRemedy(what, str(error))) from None


def _faults(following: Following) -> str | None:
    """What is not as it was planned, in words; None: all is."""
    results = following.results
    bad = [each for each in results.values() if each.outcome not in GOOD]
    found = [f"query {each.query!r}: {_ended(each)}" for each in bad]
    status = following.status
    for query in status.queries if status is not None else ():
        if query.name in following.queries and not query.active and query.error:
            found.append(f"query {query.name!r} has ended: {query.error}")
    changed_here = {e.query for e in results.values() if e.way != "restart" and e.down is None}
    active = {query.name for query in status.queries if query.active} if status else set()
    for name in sorted(changed_here - active) if not found else ():
        found.append(f"query {name!r} does not run any more: its program has stopped it")
    if not found and len(results) < len(following.queries):
        silent = [each for each in following.queries if each not in results]
        found.append(f"query {silent[0]!r}: its driver has not done anything about its state")
    return "; ".join(found) or None


def _ended(change: Reconfiguration) -> str:
    if change.outcome is None:
        return f"cut off at {change.step!r}, and nothing of it is left"
    return in_words(change)


def _what_runs(driver: Driver, following: Following) -> str:
    status = following.status
    runs = []
    for query in status.queries if status is not None and status.epoch == driver.epoch else ():
        if query.active and query.name in following.queries:
            has = query.state.partitions if query.state is not None else None
            result = following.results.get(query.name)
            if has is None and result is not None:  # it tells with its first batch
                has = result.after if result.outcome in GOOD else result.before
            number = "an unknown number of" if has is None else has
            runs.append(f"query {query.name!r} with {number} partitions")
    if not runs:
        return f"Driver {driver.epoch} is {driver.state.value}, and has none of these queries yet"
    return f"Driver {driver.epoch} runs {', '.join(runs)}"
