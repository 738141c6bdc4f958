"""The contract every cluster manager keeps.

A cluster manager submits a stream's driver, finds it again, tells where its agent is, stops it and
shows its log. Nothing in the contract supposes that the driver runs on this machine.
`tests/clusters/contract.py` is the contract as tests; every implementation passes all of them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Self, TypeGuard

import dagster as dg
from pydantic import ValidationError

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.agents.change import Change
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError, StaleEpoch
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.store import (
    Desired,
    DurableHold,
    Record,
    Store,
    Submission,
)
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import Line, explain, unknown
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.end_report import LineageEnd, Slots
from dagster_sparkscale.observe.status import Status


class DriverState(Enum):
    STARTING = "starting"
    """Submitted; its agent is not known yet."""
    RUNNING = "running"
    """The driver's process runs and its agent has been announced."""
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
    """When it ended, or, where nobody noticed that, when it was last known to live."""
    exit_reason: str | None = None
    """Why it ended, in words: `exit code 1`, `killed by signal 9`, `stop requested`."""
    fenced: bool = False
    """Whether it was kept from its checkpoint, or has lost it: another driver's mark is in it."""
    ending: str | None = None
    """How its queries were ended, as the driver that was asked to stop has told, or that it was
    killed by who asked; None: it has not told."""
    drained: bool | None = None
    """Whether a requested stop cut no query, and all was processed that receivers had received;
    None: not reported."""
    slots: Slots | None = None
    """The task slots for want of which its real-time queries did not run; None: it reports none."""
    lineage: LineageEnd | None = None
    """How its lineage was told to have ended; None: it tells none, or has not told its end."""
    cause: str | None = None
    """Why it was started, as the history of submissions has it; None: not known."""
    record: Record | None = field(default=None, repr=False, compare=False)
    """What was remembered of the stream when this was found; None: not known."""
    where: str = ""
    """Host and process, pod or application id: where a person would look."""
    declared: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    """What it was started with, as `declare.drift` tells it."""
    hold: DurableHold | None = None
    """What bars the stream from being started."""
    asked_to_stop_at: float | None = None
    """When it was asked to stop for good, seconds since the epoch; None: it is to run."""
    restarted_at: tuple[float, ...] | None = field(default=None, repr=False)
    """When recovery started the stream anew, of its latest submissions (at least the last 20),
    seconds since the epoch; None: not known."""


def is_text(value: Any) -> TypeGuard[str]:
    """Whether the value of a field is text that is known already: that of a `dg.EnvVar` is not,
    before a run begins."""
    return isinstance(value, str) and not isinstance(value, dg.EnvVar)


class ClusterManager(dg.ConfigurableResource, ABC):  # type: ignore[type-arg]
    """Submits, finds, scales and stops the drivers of streams. A Dagster resource; long, as it is
    the contract.

    Raises:
        DeclarationError: a field that there is not, or a value that can't be; also when a value
            that the environment is to give turns out to be none, where it is used.
    """

    CAPACITY_MAY_BE_UNKNOWN: ClassVar[bool] = False
    """Whether nothing is wrong where `capacity` can't be told while drivers run."""

    def __init__(self, **data: Any) -> None:
        fields = type(self).model_fields
        subject = type(self).__name__
        faults = [
            Line((name,), f"{subject}: {unknown(name, fields)}")
            for name in data
            if name not in fields
        ]
        if faults:  # Dagster would pass them over
            raise DeclarationError.of(faults)
        try:
            super().__init__(**data)
        except ValidationError as error:
            secret = "spark_conf", "pass_environment"  # where somebody may write TOKEN=value
            lacking = fields.keys() - data.keys()  # which Dagster takes for None
            raise DeclarationError.of(explain(subject, fields, error, secret, lacking)) from None

    # What a cluster manager does its own way.

    @abstractmethod
    def store(self) -> Store:
        """The store of its records."""

    @abstractmethod
    def submit(
        self,
        stream: Stream,
        lease: Lease,
        cause: str = "manual",
        settings: Mapping[str, str] | None = None,
        pinned: int | None = None,
    ) -> Driver:
        """Start a new driver with the next epoch. Returns once it has been launched; it may still
        be `STARTING`.

        Args:
            settings: Spark settings of this one start, over all others; a later one has none of
                them. What is remembered of the stream's parts is among them.
            pinned: places of tasks that are taken for good; None: as is declared.

        Raises:
            AlreadyRunning: a driver of the stream, or another on its checkpoint, is alive or may
                be.
            Held: a durable hold bars it.
            ClusterError: it could not be launched, or ended before its agent was known; shows the
                end of its log. Nothing of it runs; one that was launched counts in the history.
        """

    @abstractmethod
    def find(self, stream: str) -> Driver | None:
        """The stream's newest driver, dead or alive; None if it was never started."""

    @abstractmethod
    def agent(self, driver: Driver) -> RemoteAgent:
        """The driver's agent.

        Raises:
            AgentUnreachable: the agent's address is not known yet.
        """

    @abstractmethod
    def end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> Driver:
        """End the driver and return once nothing of it is left. What is wished for it is recorded.

        Graceful: the batch in progress is finished first. What has not ended after `timeout`
        seconds is killed.

        Raises:
            LeaseLost: the lease was lost meanwhile.
            ClusterError: something of it is left that can't be ended from here; says what.
        """

    @abstractmethod
    def logs(self, driver: Driver, lines: int = 50) -> str:
        """The last lines of the driver's log; empty if there is none."""

    @abstractmethod
    def capacity(self) -> Capacity | None:
        """What the cluster offers now; None where that cannot be told (unreachable master)."""

    def prepare(self) -> None:
        """Make the cluster ready to take drivers, as `submit` does itself once nothing refuses the
        start. Nothing to do unless it is an embedded one."""

    def snapshot(self) -> Self:
        """This cluster, to look at many streams in a row: what `find`, `history`, `agent` and
        `store().read` tell may then be as of this call, got for all streams together. Takes
        seconds at most: a tick waits for it.

        Raises:
            ClusterError: nothing can be told of any stream.
        """
        return self

    def misfit(self, stream: Stream) -> str | None:
        """Say which demand of `stream` this cluster can never meet, and what would fit; None: all
        fits, as far as the loading of code can know. No I/O."""
        return None

    def doubt(self, stream: Stream) -> str | None:
        """Say what would keep `stream` from starting, if its drivers start where this code is
        loaded; None: nothing known by then."""
        return None

    def check(self, stream: Stream) -> None:
        """Check, while the driver before still runs, that a new one of `stream` can be launched.

        Raises:
            ClusterError: it can't be launched; says why.
        """

    def conditions(self, streams: Sequence[Stream]) -> Iterable[Condition]:
        """What drivers of `streams` need where this is called, and whether it is there. Starts
        nothing and changes nothing."""
        return ()

    def follow(self, driver: Driver) -> Driver | None:
        """Find the newest driver as `find` does, for callers that wait for `driver` and ask again
        and again: the answer may be a few seconds old."""
        return self.find(driver.stream)

    # What follows from that.

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
        """Hold the right to change `stream` while the context lasts.

        The lease of a holder that is known to have ended is free at once, that of any other which
        does not renew it after `LEASE_SECONDS` of waiting.

        Args:
            holder: who asks, and when that was; by a name alone it is never too late.

        Raises:
            Overtaken: a later request was carried out before this one.
            OperationInProgress: somebody else still holds it after `wait` seconds; names them.
        """
        return leases.hold(self.store(), stream, holder, wait)

    def stop(
        self,
        driver: Driver,
        lease: Lease,
        graceful: bool = True,
        timeout: float = 120.0,
        to_restart: bool = False,
    ) -> Driver:
        """Stop the driver and return once nothing of it is left.

        First of all the wish is recorded, that the stream be stopped: should this process die
        then, nobody takes the end for a failure. Stopped to be started again at once, it may be
        completed by recovery. To stop a driver that has ended already only records the wish.

        Raises:
            StaleEpoch: `driver` is not the newest driver of its stream.
            LeaseLost: the lease is, or was meanwhile, lost.
            ClusterError: something of it is left that can't be ended from here; says what.
        """
        lease.check(driver.stream)
        record = self.newest_record(driver)
        wish: Desired = "restarting" if to_restart else "stopped"
        if record.desired != wish:
            lease.write(replace(lease.record, desired=wish, desired_since=time.time()))
        return self.end(driver, lease, graceful, timeout)

    def declare_gone(self, driver: Driver, lease: Lease, by: str) -> Driver:
        """Take a driver of which nothing can be told for ended, on a person's word.

        Raises:
            StaleEpoch: `driver` is not the newest driver of its stream.
            ClusterError: the driver is known to run, or to have ended.
        """
        lease.check(driver.stream)
        self.newest_record(driver)
        now = self.find(driver.stream)
        if now is not None and now.state is not DriverState.UNKNOWN:
            raise ClusterError(
                f"driver {now.epoch} of {now.stream!r} is {now.state.value} ({now.where}): only "
                "one of which nothing can be told is declared gone; stop it instead"
            )
        lease.write(replace(lease.record, gone=driver.epoch, gone_by=by))
        gone = self.find(driver.stream)
        assert gone is not None
        return gone

    def hold(self, lease: Lease, step: str, undo: str) -> None:
        """Bar every start of the lease's stream, also after this process has ended, until the
        hold is lifted. Set again, it tells of another step.

        Args:
            step: what the stream is in the middle of.
            undo: how that is finished or undone, for whoever finds it.
        """
        hold = DurableHold(lease.holder, step, undo, time.time())
        lease.write(replace(lease.record, hold=hold))

    def lift_hold(self, lease: Lease) -> None:
        """End a durable hold; nothing to do if there is none."""
        if lease.record.hold is not None:
            lease.write(replace(lease.record, hold=None))

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
            AgentRefused: the agent answered and refused.
        """
        return self.agent(driver).status(timeout, window)

    def change(
        self, driver: Driver, change: Change, timeout: float = 10.0, lease: Lease | None = None
    ) -> Status:
        """Have a running driver changed: its number of executors, or what a capability defines.
        Idempotent; returns what the agent reports once it has taken the change.

        Args:
            lease: of the operation that asks. By it the change is remembered, for the next driver
                to begin with; its number keeps an earlier operation, held up on the way, from
                undoing what this one did.

        Raises:
            StaleEpoch: `driver` is not the newest driver of its stream, or a later operation has
                changed it since.
            LeaseLost: the lease is over.
            AgentUnreachable, AgentRefused: as for `status`.
        """
        self.newest_record(driver)
        if lease is not None:
            lease.check(driver.stream)
            # Before it is asked for: a driver that dies of it is to come back with it. Where there
            # is nothing to remember, the record notes when it was asked for.
            lease.write(change.remembered(lease.record))
        return self.agent(driver).change(change, timeout, lease.number if lease else None)

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
