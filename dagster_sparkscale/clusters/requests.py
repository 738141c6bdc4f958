"""Outcomes of requests about a driver, and questions that every operation asks."""

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.remedy import Remedy, WithRemedy


class Refused(ValueError):
    """The request makes no sense, or not now; nothing was touched, and the text says what would."""


class NotDone(ClusterError):
    """The change was begun but not finished; the text says why, and what is so now."""


LOG_LINES = 40
"""Lines of a driver's log that say how it ended."""


def alive(stream: str, newest: Driver | None, to: str = "") -> Driver:
    """Return `newest` if it is alive.

    Args:
        stream: the name of the stream.
        to: what to do once the stream runs, for the text of the refusal.

    Raises:
        Refused: no driver of the stream is alive.
    """
    if newest is not None and newest.state.alive:
        return newest
    state = newest.state.value if newest is not None else "not started"
    then = f", then {to}" if to else ""
    raise Refused(WithRemedy(f"{stream!r} is {state}: ", Remedy.START, then))


def newest_now(cluster: ClusterManager, driver: Driver) -> Driver | None:
    """Find the newest driver of the same stream; None: the stream is not remembered any more.

    While the cluster manager does not answer, it returns `driver`: an outage ends no driver.
    """
    try:
        return cluster.follow(driver)
    except ClusterError:
        return driver


def gone(cluster: ClusterManager, driver: Driver) -> bool:
    """Whether this driver is known not to be the one that runs any more."""
    newest = newest_now(cluster, driver)
    return newest is None or newest.epoch != driver.epoch or not newest.state.alive


def end_of_log(cluster: ClusterManager, driver: Driver) -> str:
    """The last lines of the driver's log, for the text of a failure."""
    return f"Its last log lines:\n{cluster.logs(driver, LOG_LINES)}"


def ask(cluster: ClusterManager, driver: Driver) -> Status | None:
    """Ask the driver's agent for its status; None: it gives none at the moment."""
    try:
        return cluster.status(driver, window=0)
    except ClusterError:
        # Refused: another driver may have its address by now. An agent on Kubernetes can't be asked
        # during an outage of the API server.
        return None
