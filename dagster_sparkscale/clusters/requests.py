"""What may come of a request about a stream's driver, whichever operation makes it."""

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.observe.status import Status


class Refused(ValueError):
    """The request makes no sense, or not now; nothing was touched, and the text says what would."""


class NotDone(ClusterError):
    """It was begun, and what was asked for is not so; the text says why, and what is so now."""


def alive(stream: str, newest: Driver | None, to: str = "") -> Driver:
    """`newest`, which must be alive.

    Args:
        stream: its name.
        to: what it is wanted for, in words.

    Raises:
        Refused: it is not, or there is none.
    """
    if newest is not None and newest.state.alive:
        return newest
    state = newest.state.value if newest is not None else "not started"
    then = f", then {to}" if to else ""
    raise Refused(f"{stream!r} is {state}: materialize its asset to start it{then}")


def newest_now(cluster: ClusterManager, driver: Driver) -> Driver | None:
    """The newest driver of this one's stream; None: nothing is known of the stream any more.

    It is `driver`, as it was, while the cluster manager can't be asked: an outage ends no driver.
    """
    try:
        return cluster.follow(driver)
    except ClusterError:
        return driver


def ask(cluster: ClusterManager, driver: Driver) -> Status | None:
    """What the driver's agent says; None: nothing, at the moment."""
    try:
        return cluster.status(driver, window=0)
    except ClusterError:
        # Refused: another driver may have its address by now. An agent on Kubernetes can't be asked
        # during an outage of the API server.
        return None
