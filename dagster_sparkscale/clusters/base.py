"""The contract every cluster manager keeps.

A cluster manager submits a stream's driver, finds it again, tells where its agent is, stops it and
shows its log. Nothing in the contract supposes that the driver runs on this machine.
`tests/clusters/contract.py` is the contract as tests; every implementation passes all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum

import dagster as dg

from dagster_sparkscale.clusters.agents import RemoteAgent
from dagster_sparkscale.clusters.errors import StaleEpoch
from dagster_sparkscale.clusters.store import Lease, Record, Store, Submission
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.observe.status import Status


class DriverState(Enum):
    STARTING = "starting"
    """Submitted; its agent is not known yet."""
    RUNNING = "running"
    """Its process runs and its agent has been announced."""
    STOPPED = "stopped"
    """Ended because it was asked to."""
    FAILED = "failed"
    """Ended without having been asked to: crashed, killed, or its program returned."""
    UNKNOWN = "unknown"
    """Cannot be told from here, such as a driver on another host whose agent is silent."""

    @property
    def alive(self) -> bool:
        """Whether a driver runs or may run."""
        return self in (DriverState.STARTING, DriverState.RUNNING, DriverState.UNKNOWN)


@dataclass(frozen=True)
class Driver:
    """One submission of a stream. Names a driver; holds no secret."""

    stream: str
    epoch: int
    state: DriverState
    submitted_at: float
    """Seconds since the epoch."""
    agent_url: str | None = None
    app_id: str | None = None
    ui_url: str | None = None
    ended_at: float | None = None
    exit_reason: str | None = None
    """Why it ended, in words: `exit code 1`, `killed by signal 9`, `stop requested`."""
    where: str = ""
    """Host and process, pod or application id: where a person would look."""


@dataclass(frozen=True)
class Capacity:
    """What the cluster offers now."""

    cores: int
    free_cores: int
    workers: int
    details: tuple[str, ...] = field(default=())
    """One line a worker, for people."""


class ClusterManager(dg.ConfigurableResource, ABC):  # type: ignore[type-arg]
    """Submits, finds, scales and stops the drivers of streams. A Dagster resource."""

    # What a cluster manager does its own way.

    @abstractmethod
    def store(self) -> Store:
        """Where it remembers its streams."""

    @abstractmethod
    def submit(self, stream: Stream, lease: Lease, cause: str = "manual") -> Driver:
        """Start a new driver with the next epoch. Returns once it has been launched; it may still
        be `STARTING`.

        Raises:
            AlreadyRunning: a driver of the stream is alive or may be.
            ClusterError: it could not be launched, or ended before its agent was known; shows the
                end of its log. Nothing of it runs; one that was launched counts in the history.
        """

    @abstractmethod
    def find(self, stream: str) -> Driver | None:
        """The stream's newest driver, dead or alive; None if it was never started."""

    @abstractmethod
    def agent(self, driver: Driver) -> RemoteAgent:
        """The driver's agent, to be asked.

        Raises:
            AgentUnreachable: its address is not known yet.
        """

    @abstractmethod
    def stop(
        self, driver: Driver, lease: Lease, graceful: bool = True, timeout: float = 120.0
    ) -> Driver:
        """Stop the driver and return once nothing of it is left.

        Graceful: the batch in progress is finished first. What has not ended after `timeout`
        seconds is killed. The stream's wish is then to be stopped: its end is no failure. To stop
        a driver that has ended already only records that wish.

        Raises:
            StaleEpoch: `driver` is not the newest driver of its stream.
            ClusterError: something of it is left that can't be ended from here; says what.
        """

    @abstractmethod
    def logs(self, driver: Driver, lines: int = 50) -> str:
        """The last lines of the driver's log; empty if there is none."""

    @abstractmethod
    def capacity(self) -> Capacity | None:
        """What the cluster offers now; None where that cannot be told (unreachable master)."""

    def prepare(self) -> None:
        """Make the cluster ready to take drivers. Nothing to do unless it is an embedded one."""

    # What follows from that.

    def lease(self, stream: str, holder: str, wait: float = 0.0) -> AbstractContextManager[Lease]:
        """Hold the right to change `stream` while the context lasts.

        The lease of a holder that dies is free at once.

        Raises:
            OperationInProgress: somebody else still holds it after `wait` seconds; names them.
        """
        return self.store().lease(stream, holder, wait)

    def history(self, stream: str) -> Sequence[Submission]:
        """The latest submissions, oldest first (at least the last 20)."""
        record = self.store().read(stream)
        return record.history if record else ()

    def status(self, driver: Driver, timeout: float = 5.0, window: float | None = None) -> Status:
        """What the driver's agent reports.

        Args:
            window: seconds of batch history wanted (by the driver's clock); None: all it keeps.

        Raises:
            AgentUnreachable: no answer within `timeout` seconds, or its address is not known yet.
            AgentRefused: it answered and refused.
        """
        return self.agent(driver).status(timeout, window)

    def scale(self, driver: Driver, target: int, timeout: float = 10.0) -> Status:
        """Set the absolute number of executors. Idempotent; returns once the agent has asked the
        cluster for it, not when the executors have come.

        Raises:
            StaleEpoch: `driver` is not the newest driver of its stream.
            AgentUnreachable, AgentRefused: as for `status`.
        """
        self.newest_record(driver)
        return self.agent(driver).scale(target, timeout)

    def newest_record(self, driver: Driver) -> Record:
        """The record of the driver's stream.

        Raises:
            StaleEpoch: `driver` is not its newest.
        """
        record = self.store().read(driver.stream)
        epoch = record.epoch if record else 0
        if record is None or driver.epoch != epoch:
            raise StaleEpoch(
                f"{driver.stream!r} is at epoch {epoch}; the driver of epoch {driver.epoch} is gone"
            )
        return record
