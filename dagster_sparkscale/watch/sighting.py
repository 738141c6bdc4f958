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


def look(
    cluster: ClusterManager, stream: Stream, *, timeout: float, window: float | None = None
) -> Sighting:
    """Find the stream's driver and ask its agent. Never raises: a fault is a finding.

    Args:
        timeout: seconds the agent has to answer.
        window: seconds of batches to ask it for; None: the stream's window.
    """
    name = stream.name
    driver: Driver | None = None
    try:
        driver = cluster.find(name)
        if driver is None:
            return Sighting(name)
        if driver.state is DriverState.FAILED:
            return Sighting(
                name,
                driver,
                history=tuple(cluster.history(name)),
                log_tail=_log_tail(cluster, driver),
            )
        if not driver.state.alive:
            return Sighting(name, driver)
        window = stream.window if window is None else window
        status = cluster.status(driver, timeout=timeout, window=window)
        return Sighting(name, driver, status)
    except ClusterError as error:
        return Sighting(name, driver, error=str(error))
    except Exception as error:  # one stream's broken record must not silence the others
        return Sighting(name, driver, error=f"{type(error).__name__}: {error}")


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
