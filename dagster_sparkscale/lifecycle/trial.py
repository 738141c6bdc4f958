"""A trial: a driver that was started with something new is followed, and that is kept or put back.

    follow     look at the driver until it is through, another one has come, or time is over
    put back   remember what was before, and have a driver with that, unless one lives with the new

What must not change:

    an outage of the cluster manager ends no driver, and shows none to be starting either
    a driver that lives keeps what it was started with: nothing is put back behind its back
    nothing overtakes the way back, but a stream that was stopped meanwhile stays stopped
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.observe.status import Status

_POLL = 0.5


@dataclass(frozen=True)
class Followed:
    """How following a driver has ended."""

    ending: Literal["through", "ended", "out of time"]
    driver: Driver
    """The stream's newest. `ended`: another one than was followed, or it does not live."""
    status: Status | None
    """What its agent said at the last look; None: nothing."""
    blind: float
    """Seconds for which nothing was known of it before that look."""


def follow(
    cluster: ClusterManager,
    driver: Driver,
    deadline: float,
    through: Callable[[Driver, Status | None], bool],
    *,
    fresh: bool = False,
) -> Followed:
    """Look at `driver` until it is through.

    Args:
        deadline: by the monotonic clock.
        through: whether it is, by the driver as it is now and what its agent says; None: nothing.
        fresh: whether each look is one at the cluster itself. False: what it tells may be a few
            seconds old.
    """
    now, known_at = driver, time.monotonic()
    while True:
        try:
            now = (cluster.find(driver.stream) if fresh else cluster.follow(now)) or now
            answered = True
        except ClusterError:
            answered = False
        if now.epoch != driver.epoch or not now.state.alive:
            return Followed("ended", now, None, time.monotonic() - known_at)
        status, blind = _status(cluster, now), time.monotonic() - known_at
        if status is not None or (answered and now.state is DriverState.STARTING):
            known_at = time.monotonic()
        if through(now, status):
            return Followed("through", now, status, blind)
        if time.monotonic() >= deadline:
            return Followed("out of time", now, status, blind)
        time.sleep(_POLL)


def _status(cluster: ClusterManager, driver: Driver) -> Status | None:
    """What the driver's agent says; None: nothing. Another driver may have its address by now."""
    if not driver.agent_url:
        return None
    try:
        status = cluster.status(driver)
    except ClusterError:
        return None
    return status if status.epoch == driver.epoch else None


@dataclass(frozen=True)
class PutBack:
    """What came of putting back what was before."""

    ending: Literal["in force", "stopped", "start failed", "lives", "not known", "not remembered"]
    """`in force`: a driver has what was before. What was before is remembered also where the stream
    was `stopped`, and where the `start failed`. What was tried stays where a driver `lives` with
    it, where that is `not known`, and where what was before was `not remembered`."""
    driver: Driver | None = None
    """The driver that has what was before, or lives with what was tried."""
    error: ClusterError | None = None
    """Why it has not come to more."""


def put_back(
    cluster: ClusterManager,
    stream: Stream,
    requester: Requester,
    epoch: int,
    back: Callable[[Record], Record],
    start: Start,
    *,
    seen_to_end: bool,
) -> PutBack:
    """Remember what was before a trial, and have a driver with it.

    Args:
        epoch: of the driver before the trial.
        back: what is to be remembered; asked under the lease.
        start: what the start is to be.
        seen_to_end: whether the driver of the trial is known to have ended.

    Raises:
        NotDone: `back` has refused.
    """
    requester = requester.has_begun().about(None)
    try:
        with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
            # Under the lease: a recovery may have started one with the new just now.
            if (found := _lives(cluster, stream.name, epoch, seen_to_end)) is not None:
                return found
            record = lease.write(back(lease.record))
    except NotDone:
        raise
    except ClusterError as error:
        return PutBack("not remembered", error=error)
    if record.desired == "stopped":
        return PutBack("stopped")
    try:
        came = reconcile(cluster, stream, requester, start)  # attaches to one that runs by now
    except ClusterError as error:
        return PutBack("start failed", error=error)
    # A reason: it was stopped while nobody had the lease.
    return PutBack("stopped") if came.reason is not None else PutBack("in force", came.driver)


def _lives(cluster: ClusterManager, stream: str, epoch: int, seen_to_end: bool) -> PutBack | None:
    """Whether a driver that came after the one of `epoch` lives, or may; None: none does."""
    try:
        newest = cluster.find(stream)
    except ClusterError as error:
        return None if seen_to_end else PutBack("not known", error=error)
    if newest is None or newest.epoch == epoch or not newest.state.alive:
        return None
    if newest.state is DriverState.UNKNOWN:
        return PutBack("not known", error=ClusterError(f"driver {newest.epoch} is unknown"))
    return PutBack("lives", newest)
