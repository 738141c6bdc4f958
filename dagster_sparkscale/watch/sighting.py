"""What one look at a stream brought: its driver, its agent's answer, or why there is none. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.owners import whose_instead
from dagster_sparkscale.clusters.records.store import Submission
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.remedy import Remedy, WithRemedy

LOG_LINES = 30
LOG_BYTES = 2000
"""What is kept of them in all: each failed check of each stream has them, and Dagster refuses a
tick that is too large."""


@dataclass(frozen=True)
class Sighting:
    stream: str
    driver: Driver | None = None
    status: Status | None = None
    error: str | None = None
    """Why `driver` or `status` is missing, in words."""
    history: Sequence[Submission] = ()
    """Only for a failed driver: what its recovery depends on."""
    log_tail: str = ""
    """Only for a failed driver."""
    late: bool = False
    """Whether the time was over before the look was: `error` says so, and nothing of the stream."""

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing more to be seen than this."""
        known = self.driver
        return (
            self.error is not None
            or known is None
            or not (known.state.alive or known.state is DriverState.FAILED)
        )


def look(
    cluster: ClusterManager, stream: Stream, *, timeout: float, window: float | None = None
) -> Sighting:
    """Find the stream's driver and ask its agent. Never raises: a fault is a finding.

    Args:
        timeout: seconds the agent has to answer.
        window: seconds of batches to ask it for; None: the stream's window.
    """
    found = find(cluster, stream.name)
    return found if found.is_whole else ask(cluster, stream, found, timeout, window)


def find(cluster: ClusterManager, name: str) -> Sighting:
    """The first half of a look: the driver of a stream. What its recovery depends on is in it."""
    driver: Driver | None = None
    try:
        driver = cluster.find(name)
        if driver is not None and driver.state is DriverState.FAILED:
            return Sighting(name, driver, history=tuple(cluster.history(name)))
        return Sighting(name, driver)
    except Exception as error:
        return Sighting(name, driver, error=_why(error))


def ask(
    cluster: ClusterManager,
    stream: Stream,
    found: Sighting,
    timeout: float,
    window: float | None = None,
) -> Sighting:
    """The second half: the answer of its agent, or the end of its log where it has failed."""
    driver = found.driver
    assert driver is not None
    if driver.state is DriverState.FAILED:
        return replace(found, log_tail=_log_tail(cluster, driver))
    window = stream.window if window is None else window
    try:
        return replace(found, status=cluster.status(driver, timeout=timeout, window=window))
    except Exception as error:
        return replace(found, error=_why(error))


def _why(error: Exception) -> str:
    """One stream's broken record must not silence the others."""
    return str(error) if isinstance(error, ClusterError) else f"{type(error).__name__}: {error}"


def missed(sighting: Sighting, epoch: int | None) -> Sighting:
    """A look that finds nothing of a stream whose driver `epoch` was there before, and was not
    stopped, has not found one that was never started."""
    if epoch is None or sighting.driver is not None or sighting.error is not None:
        return sighting
    return replace(
        sighting,
        error=WithRemedy(
            f"nothing is remembered of it any more, though its driver {epoch} was seen before, "
            "and may run: is the state folder mounted? Where it was emptied on purpose, ",
            Remedy.START_ONCE_NONE_RUNS,
        ),
    )


def of_another(sighting: Sighting, stream: Stream, owner: str) -> Sighting:
    """A look that has found the driver of another code location's stream of that name has found
    none of this stream's.

    Args:
        owner: who declares `stream`.
    """
    known = sighting.driver.record if sighting.driver is not None else None
    why = whose_instead(known, stream, owner)
    return sighting if why is None else replace(sighting, status=None, error=why)


def _log_tail(cluster: ClusterManager, driver: Driver) -> str:
    """The log of a failed driver. It is there to be read; no recovery waits for it."""
    try:
        return _ending(cluster.logs(driver, LOG_LINES), LOG_BYTES)
    except Exception as error:
        return _ending(f"the log can't be read: {error}", LOG_BYTES)


def _ending(text: str, most: int) -> str:
    """The end of `text`, which Dagster stores in `most` bytes: odd characters take six each."""
    left = text[-most:]
    while len(json.dumps(left)) > most:
        left = left[len(left) // 8 + 1 :]
    return text if left == text else f"...{left}"
