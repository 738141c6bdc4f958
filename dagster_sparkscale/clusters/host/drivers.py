"""One submission of a stream as a driver in client mode: how it is launched, described and asked.

The functions here are what `StandaloneCluster` is made of. They take the stream's folder and record
and keep nothing themselves.
"""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dagster_sparkscale.clusters.agents import shared_client
from dagster_sparkscale.clusters.base import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    Driver,
    DriverState,
    StaleEpoch,
    Submission,
)
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.folders import (
    Record,
    StreamFolder,
    SubmissionFolder,
    read_json,
)
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.spark_settings import interval_ms
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.observe.status import Status

# Would turn the driver into a client of another Spark, or into part of another application.
_FOREIGN_ENV = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_CONNECT_MODE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
    "SPARK_TESTING",
)


def next_record(record: Record, cause: str) -> Record:
    """The record of the start that follows."""
    now = time.time()
    epoch = record.epoch + 1
    return replace(
        record,
        epoch=epoch,
        desired="running",
        desired_since=now,
        host=processes.here(),
        submitter_pid=os.getpid(),
        submitter_birth=birth(os.getpid()),
        history=(*record.history, Submission(epoch, now, cause)),
    )


def environment(
    stream: Stream,
    submission: SubmissionFolder,
    mark: str,
    *,
    java: Path,
    spark: Path,
    python: str,
    executor_python: str | None,
    loopback: bool,
) -> dict[str, str]:
    """The environment of the driver: this process's, what Spark needs, and the stream's own."""
    env = {key: value for key, value in os.environ.items() if key not in _FOREIGN_ENV}
    env["JAVA_HOME"] = str(java)
    env["SPARK_HOME"] = str(spark)
    env["PYTHONUNBUFFERED"] = "1"  # the log in the order in which things happened
    env["PYSPARK_DRIVER_PYTHON"] = python
    if executor_python:
        env["PYSPARK_PYTHON"] = executor_python
    # Where this package is not installed but lies on Dagster's path, the driver needs it too.
    package = str(Path(__file__).parents[3])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), package]))
    if loopback:
        env["SPARK_LOCAL_IP"] = "127.0.0.1"  # or the UI would listen on every interface
    env.update(stream.env)
    # Settings travel in a file: arguments show in process lists.
    env["PYSPARK_SUBMIT_ARGS"] = shlex.join(
        ["--properties-file", str(submission.properties), "pyspark-shell"]
    )
    env[processes.MARKER] = mark
    return env


def command(
    stream: Stream,
    epoch: int,
    submission: SubmissionFolder,
    python: str,
    bind: str,
    program: Path,
    arguments: Sequence[str],
) -> list[str]:
    """The command line of the driver. Holds no secret."""
    bounds = stream.bounds
    maximum = [] if bounds.maximum is None else ["--max-executors", str(bounds.maximum)]
    return [
        *(python, "-m", "dagster_sparkscale.driver"),
        *("--stream", stream.name, "--epoch", str(epoch)),
        *("--interval-ms", str(interval_ms(stream))),
        *("--initial-executors", str(bounds.initial)),
        *maximum,
        *("--token-file", str(submission.token), "--announce", str(submission.agent)),
        *("--bind", bind),
        *(str(program), *arguments),
    ]


def describe(folder: StreamFolder, record: Record) -> Driver:
    """The stream's newest driver as it is now.

    Raises:
        ClusterError: a file of the submission can't be read; names it.
    """
    submission = folder.submission(record.epoch)
    agent = read_json(submission.agent) or {}
    driver = Driver(
        stream=folder.stream,
        epoch=record.epoch,
        state=DriverState.STARTING,
        submitted_at=record.submitted_at,
        agent_url=_text(agent, "url"),
        app_id=_text(agent, "app_id"),
        ui_url=_text(agent, "ui_url"),
    )

    def running_there() -> bool:
        try:
            ask_status(driver, submission, 2.0, window=0.0)
        except (AgentUnreachable, AgentRefused):
            return False
        return True

    fate = processes.observe(record, submission, running_there)
    state, reason = fate.state, fate.reason
    if state is DriverState.FAILED and record.desired == "stopped":
        state = DriverState.STOPPED
        before = fate.ended_at is not None and fate.ended_at < record.desired_since
        reason = f"{reason}, before it was asked to stop" if before else "stop requested"
    where = f"process {fate.pid} on {record.host}" if fate.pid else f"host {record.host}"
    where += f", log {submission.log}"
    return replace(driver, state=state, where=where, ended_at=fate.ended_at, exit_reason=reason)


def await_agent(folder: StreamFolder, record: Record, seconds: float) -> Driver:
    """The driver once its agent has been announced, or still starting after `seconds`.

    Raises:
        ClusterError: it has ended; shows the end of its log.
    """
    deadline = time.monotonic() + seconds
    while True:
        driver = describe(folder, record)
        if driver.state is DriverState.FAILED:
            submission = folder.submission(record.epoch)
            raise ClusterError(
                f"the driver of {folder.stream!r} ended at once: {driver.exit_reason}. "
                f"The end of its log ({submission.log}):\n{submission.tail(20)}"
            )
        if driver.state is DriverState.RUNNING or time.monotonic() > deadline:
            return driver
        time.sleep(0.1)


def ask_status(
    driver: Driver, submission: SubmissionFolder, timeout: float, window: float | None
) -> Status:
    """What the driver's agent reports.

    Raises:
        AgentUnreachable: no answer; or another stream's agent answers at that address.
        AgentRefused: it answered and refused.
    """
    url, token = address(driver, submission), submission.read_token()
    status = shared_client().status(driver.stream, url, token, timeout, window)
    if (status.stream, status.epoch) != (driver.stream, driver.epoch):
        raise AgentUnreachable(
            f"at {url} answers the agent of {status.stream!r}, epoch {status.epoch}, not that of "
            f"{driver.stream!r}, epoch {driver.epoch}"
        )
    return status


def ask_to_stop(
    driver: Driver, submission: SubmissionFolder, graceful: bool, patience: float
) -> bool:
    """Ask the agent to end the driver; whether it has agreed to."""
    try:
        url, token = address(driver, submission), submission.read_token()
        shared_client().stop(driver.stream, url, token, graceful, driver.epoch, patience)
    except ClusterError:
        return False
    return True


def address(driver: Driver, submission: SubmissionFolder) -> str:
    """The URL of the driver's agent, looked up again if it was not known when `driver` was found.

    Raises:
        AgentUnreachable: it has not been announced.
    """
    url = driver.agent_url or _text(read_json(submission.agent) or {}, "url")
    if url is None:
        raise AgentUnreachable(
            f"the agent of {driver.stream!r} has not announced its address: the driver is still "
            "starting, or ended before it could"
        )
    return url


def check_epoch(driver: Driver, record: Record | None) -> Record:
    """The record, if `driver` is the newest driver of its stream.

    Raises:
        StaleEpoch: it is not.
    """
    newest = record.epoch if record else 0
    if record is None or driver.epoch != newest:
        raise StaleEpoch(
            f"{driver.stream!r} is at epoch {newest}; the driver of epoch {driver.epoch} is gone"
        )
    return record


def occupied(driver: Driver, submission: SubmissionFolder) -> str:
    """Why no driver can be started now, and what to do."""
    text = (
        f"{driver.stream!r} is {driver.state.value} already, epoch {driver.epoch}, {driver.where}"
    )
    if driver.state is DriverState.UNKNOWN:
        text += f". {_foreign(submission)}"
    return text


def out_of_reach(driver: Driver, submission: SubmissionFolder) -> str:
    """Why a driver can't be stopped from here, and what to do."""
    return (
        f"{driver.stream!r} was started on another host ({driver.where}) and its agent could not "
        f"be made to stop it. {_foreign(submission)}"
    )


def _foreign(submission: SubmissionFolder) -> str:
    return (
        "Its agent can't be reached from here, so it may still be running: stop it on its own "
        f"host, or, when that host is gone for good, create the empty file {submission.gone}"
    )


def _text(content: Mapping[str, object], name: str) -> str | None:
    value = content.get(name)
    return value if isinstance(value, str) and value else None
