"""One submission of a stream whose driver is a process of this host: launched, told of, ended."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dagster_sparkscale.clusters.agents import RemoteAgent
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import (
    AgentUnreachable,
    AlreadyRunning,
    ClusterError,
)
from dagster_sparkscale.clusters.host import fates, places, processes
from dagster_sparkscale.clusters.host.folders import StreamFolder, SubmissionFolder, read_json
from dagster_sparkscale.clusters.host.last_words import raised
from dagster_sparkscale.clusters.host.launch import Runtime, command, environment
from dagster_sparkscale.clusters.host.strangers import marks
from dagster_sparkscale.clusters.leases import Lease
from dagster_sparkscale.clusters.spark_settings import properties
from dagster_sparkscale.clusters.store import Record
from dagster_sparkscale.declare.streams import Stream

ABRUPT_SECONDS = 15.0
"""How long a driver that shall end at once may take to, before it is killed."""
LAST_LINES = 200
"""Of the log of a driver that has failed, in which it is looked what was raised."""


@dataclass(frozen=True)
class HostedDriver:
    """What is remembered of one submission, its files and its processes."""

    folder: StreamFolder
    record: Record

    @property
    def files(self) -> SubmissionFolder:
        return self.folder.submission(self.record.epoch)

    def make_way(self) -> None:
        """See to it that nothing of this submission, or of one before it, is left.

        Raises:
            AlreadyRunning: its driver is alive, or may be; or a driver of the stream of which
                nothing is remembered is.
            ClusterError: a process that it has left behind can't be killed.
        """
        name, record = self.folder.stream, self.record
        if record.epoch and (driver := self.describe()).state.alive:
            raise AlreadyRunning(self._occupied(driver))
        # Where the newest was started here, whatever is older is known to have ended.
        known = record.epoch if self._is_here() else 0
        if unknown := processes.later_than(name, known, record.id):
            raise AlreadyRunning(
                f"process {unknown[0]} on this host is of a driver of {name!r} that is not the one "
                f"remembered in {self.folder.path} (epoch {record.epoch}): was an older copy put "
                "back while it ran? End that process first, or put the newer one back. Two drivers "
                "on one checkpoint lose data"
            )
        # A driver killed alone may leave its JVM behind, and that still writes the checkpoint.
        processes.clear_up_to(name, record.epoch, record.id)

    def launch(
        self,
        stream: Stream,
        settings: Mapping[str, str],
        program: Path,
        arguments: Sequence[str],
        runtime: Runtime,
        fence: Sequence[str] = (),
    ) -> None:
        """Start the driver, which is remembered already.

        Raises:
            ClusterError: it could not be started; nothing of it runs.
        """
        files = self.files
        files.create()
        files.write_private(files.token, secrets.token_urlsafe(32))
        files.write_private(files.properties, properties(settings))
        env = environment(stream, files, self._mark, runtime)
        if self.record.checkpoint is not None:
            env.update(marks(self.record.checkpoint, self.folder.state_dir))
        processes.launch(
            files, command(stream, self.record, files, runtime, program, arguments, fence), env
        )
        self.folder.prune()

    def await_agent(self, seconds: float) -> Driver:
        """The driver once its agent has been announced, or still starting after `seconds`.

        Raises:
            ClusterError: it has ended; shows the end of its log.
        """
        deadline = time.monotonic() + seconds
        while True:
            driver = self.describe()
            if driver.state is DriverState.FAILED:
                raise ClusterError(
                    f"the driver of {self.folder.stream!r} ended at once: {driver.exit_reason}. "
                    f"The end of its log ({self.files.log}):\n{self.files.tail(20)}"
                )
            if driver.state is DriverState.RUNNING or time.monotonic() > deadline:
                return driver
            time.sleep(0.1)

    def describe(self) -> Driver:
        """The driver as it is now.

        Raises:
            ClusterError: a file of the submission can't be read; names it.
        """
        record, files = self.record, self.files
        note = read_json(files.agent) or {}
        driver = Driver(
            stream=self.folder.stream,
            epoch=record.epoch,
            state=DriverState.STARTING,
            submitted_at=record.submitted_at,
            agent_url=_text(note, "url"),
            app_id=_text(note, "app_id"),
            ui_url=_text(note, "ui_url"),
            declared=record.declared,
            hold=record.hold,
            asked_to_stop_at=record.asked_to_stop_at,
            restarted_at=record.restarted_at,
        )

        def running_there() -> bool:
            try:
                agent_of(driver, files).status(timeout=2.0, window=0.0)
            except ClusterError:  # no answer, a refusal, or its token is gone
                return False
            return True

        fate = fates.observe(record, files, running_there)
        state, reason = fate.state, fate.reason
        if (reason or "").startswith("exit code") and (last := raised(files.tail(LAST_LINES))):
            reason = f"{reason}: {last}"
        told = None if state.alive else files.ending()
        if told is not None and told.sigterm:
            reason = "ended by SIGTERM" if told.clean else f"ended by SIGTERM; {told.in_words()}"
        if state is DriverState.FAILED and record.desired == "restarting":
            reason = f"{reason}, and the restart that stopped it was not completed"
        if state is DriverState.FAILED and record.desired == "stopped":
            state = DriverState.STOPPED
            before = fate.ended_at is not None and fate.ended_at < record.desired_since
            reason = f"{reason}, before it was asked to stop" if before else "stop requested"
        fenced = None if state.alive else read_json(files.fenced)
        if fenced is not None and state is DriverState.FAILED:
            reason = str(fenced.get("reason", reason))
        if told is not None and not told.clean and state is DriverState.STOPPED:
            reason = f"{reason}; {told.in_words()}"
        where = f"process {fate.pid} on {record.host}" if fate.pid else f"host {record.host}"
        where += f", log {files.log}"
        return replace(
            driver,
            state=state,
            where=where,
            ended_at=fate.heard_of_at if fate.ended_at is None else fate.ended_at,
            exit_reason=reason,
            fenced=fenced is not None,
            ending=told.in_words() if told else None,
        )

    def end(self, lease: Lease, graceful: bool, timeout: float) -> Driver:
        """End the driver and return once nothing of it is left; by force after `timeout` seconds.

        An agent that does not answer is asked again until then: it may be busy, and what is ended
        by a signal instead has its batch cut.

        Raises:
            LeaseLost: the lease was lost meanwhile.
            ClusterError: something of it is left that can't be ended from here; says what.
        """
        seconds = timeout if graceful else min(timeout, ABRUPT_SECONDS)
        deadline = time.monotonic() + seconds
        agreed = False
        while (there := self.describe().state.alive) and time.monotonic() < deadline:
            lease.check()
            left = deadline - time.monotonic()
            agreed = agreed or self.agrees_to_stop(graceful, left, lease.number)
            time.sleep(0.1)
        lease.check()
        if there and not self._is_here():
            raise ClusterError(self._out_of_reach())
        if there:
            processes.terminate(self.files, self._mark, lambda: self.describe().state.alive)
        else:
            processes.clear(self._mark)
        ended = self.describe()
        if ended.state.alive:
            raise ClusterError(
                f"{ended.stream!r} is {ended.state.value} still, though it was told to end "
                f"({ended.where}): {self._occupied(ended)}"
            )
        if there and ended.ending is None:
            killed = f"killed after {seconds:g} s; it is not known what was drained"
            return replace(ended, ending=killed)
        return ended

    def _is_here(self) -> bool:
        """Whether its processes can be seen, and signalled, from here."""
        return places.same_namespace(self.record.submitter)

    def agrees_to_stop(self, graceful: bool, patience: float, operation: int | None) -> bool:
        """Ask the agent to end the driver; whether it has agreed to."""
        try:
            agent_of(self.describe(), self.files).stop(graceful, patience, operation=operation)
        except ClusterError:
            return False
        return True

    @property
    def _mark(self) -> str:
        """Of this submission only: should the lease be lost, what came after it is another's."""
        return processes.marker(self.folder.stream, self.record.epoch, self.record.id)

    def _occupied(self, driver: Driver) -> str:
        """Why no driver can be started now, and what to do."""
        name, state = driver.stream, driver.state
        text = f"{name!r} is {state.value} already, epoch {driver.epoch}, {driver.where}"
        return f"{text}. {self._foreign()}" if state is DriverState.UNKNOWN else text

    def _out_of_reach(self) -> str:
        """Why the driver can't be stopped from here, and what to do."""
        driver = self.describe()
        return (
            f"{driver.stream!r} was started on another host or in another container "
            f"({driver.where}) and its agent could not be made to stop it. {self._foreign()}"
        )

    def _foreign(self) -> str:
        return (
            "Its agent can't be reached from here, so it may still be running: stop it on its own "
            "host, or, when you are certain that it is gone for good, run the job declare_gone "
            f"for epoch {self.record.epoch}"
        )


def agent_of(driver: Driver, files: SubmissionFolder) -> RemoteAgent:
    """The agent of `driver`, its address looked up again if it was not known when it was found.

    Raises:
        AgentUnreachable: it has not been announced.
        ClusterError: its token can't be read.
    """
    url = driver.agent_url or _text(read_json(files.agent) or {}, "url")
    if url is None:
        raise AgentUnreachable(
            f"the agent of {driver.stream!r} has not announced its address: the driver is still "
            "starting, or ended before it could"
        )
    return RemoteAgent(driver.stream, driver.epoch, url, files.read_token())


def _text(content: Mapping[str, object], name: str) -> str | None:
    value = content.get(name)
    return value if isinstance(value, str) and value else None
