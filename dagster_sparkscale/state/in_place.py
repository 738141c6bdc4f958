"""Has a driver that runs change the state of its queries, and tells what only a restart can do."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, NotMet, StaleEpoch
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.in_force.steering import in_force, refuse_if_barred
from dagster_sparkscale.state.change_state import ChangeState
from dagster_sparkscale.state.follow import Following
from dagster_sparkscale.state.partition_change import PartitionChange

ASK_SECONDS = 60.0
"""Seconds for which the agent is asked again where it does not answer: what it has taken once it
does not take again."""
_POLL = 0.5


@dataclass(frozen=True)
class Came:
    """What came of a change in place."""

    driver: Driver
    """The stream's newest: another one, or not alive, where it ended in the middle of it."""
    restart: str | None = None
    """Why the driver has to be restarted, for people; None: it has not."""
    plan: StatePlan | None = None
    """What the next driver is to change; None: nothing."""
    asked: bool = True
    """Whether the driver has taken the request."""


def change_in_place(
    cluster: ClusterManager,
    stream: Stream,
    change: PartitionChange,
    driver: Driver,
    requester: Requester,
    following: Following,
    within: float,
) -> Came:
    """Have `change` made by `driver`, and follow it until it is through.

    Args:
        within: seconds that the batch in progress of each query has to end.

    Raises:
        Overtaken: it was decided, and the stream is frozen by now, or advised only.
        Refused: the agent takes no requests from here, as where the token is another's; nothing was
            done.
        StaleEpoch: another driver runs by now, or a later operation was here; nothing was done.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        OutOfTime: `following.deadline` is over; the driver goes on.
        ClusterError: the agent can't be asked.
    """
    about = requester.about(driver.epoch)
    asked = ChangeState(change.plan, within, change.way.limits)
    try:
        with cluster.lease(driver.stream, about, requester.lease_wait) as lease:
            if requester.decided:
                refuse_if_barred(in_force(lease.record, stream, time.time()))
            _ask(cluster, driver, asked, lease)
    except StaleEpoch:
        raise
    except NotMet as error:
        return Came(driver, f"it can't be done in place: {error}", change.plan, asked=False)
    except AgentRefused as error:
        # A driver that can't be asked is not known to be unable: a restart would be for nothing.
        raise Refused(f"{error}; nothing was changed") from None
    now = following.until_through(driver, in_place=True)
    if now.epoch != driver.epoch or not now.state.alive:
        return Came(now)
    results = [following.results[each] for each in change.plan.queries]
    left = tuple(each.query for each in results if each.restart)
    down = [each for each in results if each.down is not None]
    if left or down:
        why = [f"query {each.query!r}: {each.reason}" for each in results if each.restart]
        why += [f"query {each.query!r} does not run: {each.down}" for each in down]
        plan = replace(change.plan, queries=left) if left else None
        return Came(now, _listed(why), plan)
    return Came(now)


def _listed(reasons: Sequence[str]) -> str:
    return "; ".join(reasons)


def _ask(cluster: ClusterManager, driver: Driver, change: ChangeState, lease: Lease) -> None:
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        try:
            cluster.change(driver, change, lease=lease)
            return
        except AgentUnreachable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL)
