"""The driver that an operation is about, and where its receivers are. No Dagster here."""

from contextlib import suppress
from dataclasses import dataclass

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    StaleEpoch,
)
from dagster_sparkscale.declare.streams import DStream, Stream
from dagster_sparkscale.observe.status import Receiver, Relaunch, Status


class Refused(ValueError):
    """The request makes no sense; the text says what would."""


class Overtaken(Exception):
    """What was decided is not so any more: there is nothing to do."""


@dataclass(frozen=True)
class Away:
    """A receiver that was away from where it ran, as a run tells of it."""

    stream_id: int
    cause: str
    from_executor: str | None
    to_executor: str | None
    """None: it runs nowhere yet."""
    wanted: str | None
    """The executor that it was sent to; None: Spark chose."""
    seconds: float | None
    """None: not known, or it is away still."""

    @classmethod
    def of(cls, told: Relaunch) -> "Away":
        return cls(
            told.stream_id,
            told.cause,
            told.from_executor,
            told.to_executor,
            told.wanted,
            told.away_seconds,
        )


def receiving(stream: Stream) -> DStream:
    """`stream`, if it is one with receivers.

    Raises:
        Refused: it is none.
    """
    if not isinstance(stream, DStream) or not stream.receivers:
        raise Refused(f"{stream.name!r} has no receivers: only a DStream that declares some has")
    return stream


def running(cluster: ClusterManager, stream: str, epoch: int | None, decided: bool) -> Driver:
    """The stream's driver.

    Args:
        epoch: of the driver that is meant; None: whichever runs.
        decided: whether this was decided by a policy: should its driver have ended since, that is
            no fault.

    Raises:
        Overtaken: it was decided for another driver than runs now.
        StaleEpoch: it was asked for another one.
        Refused: none runs.
    """
    driver = cluster.find(stream)
    alive = driver is not None and driver.state.alive
    if epoch is not None and (driver is None or driver.epoch != epoch or (decided and not alive)):
        now = (
            "none is known" if driver is None else f"driver {driver.epoch} is {driver.state.value}"
        )
        if decided:
            raise Overtaken(f"decided for driver {epoch}, and {now} by now")
        raise StaleEpoch(f"{stream!r}: asked for driver {epoch}, and {now} by now")
    if driver is None or not alive:
        state = driver.state.value if driver else "not started"
        raise Refused(f"{stream!r} is {state}: materialize its asset to start it")
    return driver


def ask(cluster: ClusterManager, driver: Driver) -> Status | None:
    """What the driver's agent says; None: nothing, at the moment."""
    with suppress(AgentUnreachable, AgentRefused):
        return cluster.status(driver, window=0)
    return None


def gone(cluster: ClusterManager, driver: Driver) -> bool:
    """Whether this driver is known not to be the one that runs any more."""
    with suppress(ClusterError):  # an outage of the cluster manager ends no driver
        newest = cluster.find(driver.stream)
        return newest is None or newest.epoch != driver.epoch or not newest.state.alive
    return False


def receiver_of(status: Status, stream_id: int) -> Receiver | None:
    """The receiver of this stream id."""
    return next((each for each in status.receivers or () if each.stream_id == stream_id), None)


def active(status: Status) -> int | None:
    """How many receivers run on an executor; None: that can't be told."""
    if status.receivers is None:
        return None
    return sum(each.executor is not None for each in status.receivers)


def spread(status: Status) -> str | None:
    """Receivers of each executor, the most first, as `[3, 2, 0]`; None: that can't be told."""
    if status.receivers is None:
        return None
    counts = {executor.id: 0 for executor in status.executors}
    for each in status.receivers:
        if each.executor is not None:
            counts[each.executor] = counts.get(each.executor, 0) + 1
    return str(sorted(counts.values(), reverse=True))
