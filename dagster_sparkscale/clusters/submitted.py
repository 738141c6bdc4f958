"""One submission of a stream, wherever its driver runs: described, awaited, ended.

What must not change: whoever ends a driver holds the stream's lease all the while; an agent that
does not answer is asked again for as long as there is time, since a driver that is ended without it
has its batch cut; a driver is reported as ended only when nothing of it is left.
"""

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.fate import Fate, Observed, driver_of
from dagster_sparkscale.clusters.pauses import pauses
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.remedy import Remedy, WithRemedy

LISTEN = 0.5
"""Seconds between two requests to an agent that has agreed to end its driver."""
ABRUPT_SECONDS = 15.0
"""Seconds that a driver which shall end at once may take, before it is killed."""


class SubmittedDriver(ABC):
    """The newest submission of a stream at its cluster manager."""

    EVERY: ClassVar[float] = 0.1
    """Seconds between two looks at the driver while something is awaited, at most."""
    TOLD_BY: ClassVar[str] = "the cluster manager and its agent"
    """The parts of the cluster that tell how the driver is."""

    def __init__(self, stream: str, record: Record) -> None:
        self.stream = stream
        self.record = record

    # What a cluster manager does its own way.

    @abstractmethod
    def look(self) -> Observed:
        """Find out how the driver is now. What can't be found out is UNKNOWN, never an end.

        Raises:
            ClusterError: a note about the driver can't be read.
        """

    @abstractmethod
    def agent(self) -> RemoteAgent:
        """The driver's agent.

        Raises:
            AgentUnreachable: the agent's address is not known, or not yet.
            ClusterError: the agent's token can't be read.
        """

    @abstractmethod
    def log(self, lines: int) -> str:
        """The last lines of the driver's log; empty if there is none."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the driver. Returns when nothing of it is left.

        Raises:
            ClusterError: it can't be killed from here, or something of it is left; says what.
        """

    @abstractmethod
    def clear(self) -> None:
        """Remove what the ended driver has left behind.

        Raises:
            ClusterError: something can't be removed; says what.
        """

    def has_begun(self) -> bool:
        """Whether the program may have begun, so that there may be something to finish; False only
        if it certainly has not, such as in a driver that still waits for room."""
        return True

    def log_place(self) -> str:
        """The place of the driver's log, for people; empty: wherever `sparkscale logs` finds it."""
        return ""

    def out_of_reach(self) -> str:
        """Why this host can't find out about the driver, and what to do."""
        return WithRemedy(
            f"It can't be told whether it still runs: look again when {self.TOLD_BY} answer, or, "
            "when you are certain that it is gone for good, ",
            Remedy.DECLARE_GONE,
            f" for epoch {self.record.epoch}",
        )

    # What follows from that.

    def describe(self) -> Driver:
        """Describe the driver as it is now.

        Raises:
            ClusterError: a note about the driver can't be read.
        """
        return driver_of(self.stream, self.record, self.look())

    def make_way(self) -> None:
        """See to it that nothing of this submission, or of one before it, is left.

        Raises:
            AlreadyRunning: the driver is alive, or may be.
            ClusterError: something that the ended driver left behind can't be removed.
        """
        self.refuse_if_alive()
        self.clear()

    def by_its_agent(self, doubt: Fate) -> Fate:
        """The fate of a driver of which nothing else can tell: it runs if its agent answers; else
        the doubt stays."""
        try:
            self.agent().status(timeout=2.0, window=0.0)
        except ClusterError:  # no answer, a refusal, or its token is gone
            return doubt
        return Fate(DriverState.RUNNING)

    def refuse_if_alive(self) -> None:
        """Refuse to go on while the driver is alive, or may be.

        Raises:
            AlreadyRunning: the driver is, or may be, alive; says where, and what to do.
        """
        if self.record.epoch and (driver := self.describe()).state.alive:
            raise AlreadyRunning(self.occupied(driver))

    def await_agent(self, seconds: float) -> Driver:
        """Wait until the agent is known, at most `seconds`; returns the driver as it is then.

        Raises:
            ClusterError: the driver has ended; shows the end of its log.
        """
        deadline = time.monotonic() + seconds
        for pause in pauses(self.EVERY):
            try:
                driver = self.describe()
            except ClusterError as error:  # it was launched: an outage since then is no end of it
                unobserved = Observed(Fate(DriverState.UNKNOWN, reason=str(error)))
                driver = driver_of(self.stream, self.record, unobserved)
            if driver.state is DriverState.FAILED:
                place = f" ({self.log_place()})" if self.log_place() else ""
                try:
                    log = self.log(20)
                except ClusterError as error:
                    log = f"can't be read: {error}"
                raise ClusterError(
                    f"the driver of {self.stream!r} ended at once: {driver.exit_reason}. "
                    f"The end of its log{place}:\n{log}"
                )
            left = deadline - time.monotonic()
            if driver.state is DriverState.RUNNING or left <= 0:
                return driver
            time.sleep(min(pause, left))
        raise AssertionError("pauses have no end")

    def end(self, lease: Lease, graceful: bool, timeout: float) -> Driver:
        """End the driver and return once nothing of it is left; by force after `timeout` seconds.

        An agent that does not answer is asked again until then: it may be busy, and what is ended
        by force instead has its batch cut.

        Raises:
            LeaseLost: the lease was lost meanwhile.
            ClusterError: something of it is left that can't be ended from here; says what.
        """
        seconds = timeout if graceful else min(timeout, ABRUPT_SECONDS)
        deadline = time.monotonic() + seconds
        agreed, begun, waits = False, True, pauses(self.EVERY)
        listens, asked = self.EVERY > LISTEN, 0
        while (there := self.describe().state.alive) and time.monotonic() < deadline:
            lease.check()
            if not agreed:
                if not (begun := self.has_begun()):
                    break
                # The way to it may lead through the cluster manager, too.
                asked += 1
                if asked < 3 or asked % 2 or not listens:
                    left = deadline - time.monotonic()
                    agreed = self.agrees_to_stop(graceful, left, lease.number)
            pause = max(0.0, min(next(waits), deadline - time.monotonic()))
            if not (agreed and listens):
                time.sleep(pause)
            elif not self._answers_for(pause):
                listens, waits = False, pauses(self.EVERY)
        lease.check()
        if there:
            self.kill()
        else:
            self.clear()
        ended = self.describe()
        if ended.state.alive:
            still = f"{ended.stream!r} is {ended.state.value} still, though it was told to end "
            raise ClusterError(WithRemedy(f"{still}({ended.where}): ", self.occupied(ended)))
        if there and ended.ending is None and begun:
            killed = f"killed after {seconds:g} s; it is not known what was drained"
            return replace(ended, ending=killed)
        return ended

    def _answers_for(self, seconds: float) -> bool:
        """Whether the agent answers for so long; returns as soon as it does not. That costs the
        cluster manager nothing, and tells at once that the end of its driver is near."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                self.agent().status(timeout=LISTEN, window=0.0)
            except ClusterError:
                return False
            time.sleep(min(LISTEN, left))
        return True

    def agrees_to_stop(self, graceful: bool, patience: float, operation: int | None) -> bool:
        """Ask the agent to end the driver; returns whether it agreed."""
        try:
            self.agent().stop(graceful, patience, operation=operation)
        except ClusterError:
            return False
        return True

    def occupied(self, driver: Driver) -> str:
        """Why no driver can be started now, and what to do."""
        name, state = driver.stream, driver.state
        text = f"{name!r} is {state.value} already, epoch {driver.epoch}, {driver.where}"
        return WithRemedy(text, ". ", self.out_of_reach()) if state is DriverState.UNKNOWN else text
